// Where the interpreter gets weights from. Free of LLVM.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlir::smelt::interpreter {

// Codes of i8 stand for their products with the scales that the source has beside them
// (docs/quantization.md).
enum class WeightElement { f32, bf16, i8 };

class WeightSource {
public:
  virtual ~WeightSource() = default;

  // The values, row-major, of the tensor of this name ("model.layers.3.mlp.gate.weight"). Nothing, with the
  // reason in `error`, when there is no such tensor or its shape or element type differs. Called from one
  // thread.
  virtual std::optional<std::vector<double>> read(const std::string &name, const std::vector<int64_t> &shape,
                                                  WeightElement element, std::string &error) = 0;
};

} // namespace mlir::smelt::interpreter
