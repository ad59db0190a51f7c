// The tensors of a model: one safetensors file, or the files a model.safetensors.index.json names.
#pragma once

#include "compiler/Import/SafeTensorsFile.h"

namespace smelt::checkpoint {

class Checkpoint {
public:
  // `path` is a safetensors file, or an index ("*.json") that maps names to files beside it.
  static ReadResult<Checkpoint> open(const std::string &path);

  const std::vector<SafeTensorsFile> &files() const { return parts; }
  const std::map<std::string, TensorView> &tensors() const { return views; }

private:
  std::vector<SafeTensorsFile> parts;
  std::map<std::string, TensorView> views;
};

} // namespace smelt::checkpoint
