#include "compiler/Import/CheckpointWeights.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace smelt::checkpoint {

using mlir::smelt::interpreter::WeightElement;

template <typename Bits> static Bits load(std::span<const std::byte> bytes, size_t index) {
  Bits bits;
  std::memcpy(&bits, bytes.data() + index * sizeof(Bits), sizeof(Bits));
  return bits;
}

std::optional<std::vector<double>> CheckpointWeights::read(const std::string &name,
                                                           const std::vector<int64_t> &shape,
                                                           WeightElement element, std::string &error) {
  auto found = checkpoint.tensors().find(name);
  if (found == checkpoint.tensors().end()) {
    error = "there is no such tensor";
    return std::nullopt;
  }
  const TensorView &view = found->second;
  const char *dtype = element == WeightElement::bf16 ? "BF16" : "F32";
  if (view.dtype != dtype || view.shape != shape) {
    error = fmt::format("the file has {} [{}], but the model needs {} [{}]", view.dtype,
                        fmt::join(view.shape, ", "), dtype, fmt::join(shape, ", "));
    return std::nullopt;
  }
  std::vector<double> values(view.bytes.size() / elementSize(view.dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    // A bf16 is the upper half of the f32 of the same value.
    uint32_t bits = element == WeightElement::bf16 ? uint32_t(load<uint16_t>(view.bytes, i)) << 16
                                                   : load<uint32_t>(view.bytes, i);
    values[i] = std::bit_cast<float>(bits);
  }
  return values;
}

} // namespace smelt::checkpoint
