// Weights for the interpreter from safetensors files.
#pragma once

#include "compiler/Import/Checkpoint.h"
#include "dialect/Interpreter/WeightSource.h"

namespace smelt::checkpoint {

class CheckpointWeights : public mlir::smelt::interpreter::WeightSource {
public:
  explicit CheckpointWeights(Checkpoint checkpoint) : checkpoint(std::move(checkpoint)) {}

  std::optional<std::vector<double>> read(const std::string &name, const std::vector<int64_t> &shape,
                                          mlir::smelt::interpreter::WeightElement element,
                                          std::string &error) override;

private:
  // Null, with the reason, unless the file has a tensor of this name, shape and type.
  const TensorView *find(const std::string &name, const std::vector<int64_t> &shape, const char *dtype,
                         std::string &error) const;
  bool applyScales(const std::string &name, const std::vector<int64_t> &shape, std::vector<double> &values,
                   std::string &error) const;

  Checkpoint checkpoint;
};

} // namespace smelt::checkpoint
