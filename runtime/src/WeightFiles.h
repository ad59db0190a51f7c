// The safetensors files behind a list of paths.
#pragma once

#include "runtime/src/MappedFile.h"
#include "runtime/src/SafeTensors.h"

namespace smelt::runtime {

struct WeightFile {
  MappedFile file;
  SafeTensorsHeader header;
};

// Each path is a .safetensors file, a model.safetensors.index.json (its shards lie beside it), or a folder
// that holds model.safetensors.index.json or model.safetensors. A file reached twice is opened once.
// SMELT_io: a file cannot be read; SMELT_weights: a file is malformed or an index contradicts its shards.
// Problems of all files are reported together.
Result<std::vector<WeightFile>> openWeightFiles(std::span<const std::string> paths);

} // namespace smelt::runtime
