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

// A bf16 is the upper half of the f32 of the same value.
static float widened(uint16_t half) { return std::bit_cast<float>(uint32_t(half) << 16); }

std::optional<std::vector<double>> CheckpointWeights::read(const std::string &name,
                                                           const std::vector<int64_t> &shape,
                                                           WeightElement element, std::string &error) {
  const char *dtype = element == WeightElement::i8 ? "I8" : element == WeightElement::bf16 ? "BF16" : "F32";
  const TensorView *view = find(name, shape, dtype, error);
  if (!view) {
    return std::nullopt;
  }
  std::vector<double> values(view->bytes.size() / elementSize(view->dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element == WeightElement::i8     ? double(load<int8_t>(view->bytes, i))
                : element == WeightElement::bf16 ? widened(load<uint16_t>(view->bytes, i))
                                                 : load<float>(view->bytes, i);
  }
  if (element == WeightElement::i8 && !applyScales(name, shape, values, error)) {
    return std::nullopt;
  }
  return values;
}

// Codes become weights: each block of 32 along a row has a scale.
bool CheckpointWeights::applyScales(const std::string &name, const std::vector<int64_t> &shape,
                                    std::vector<double> &values, std::string &error) const {
  size_t columns = shape.back(), blocks = (columns + 31) / 32;
  const TensorView *scales = find(name + "_scale", {shape.front(), int64_t(blocks)}, "BF16", error);
  if (!scales) {
    error = "its scales: " + error;
    return false;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    size_t block = i / columns * blocks + i % columns / 32;
    values[i] *= widened(load<uint16_t>(scales->bytes, block));
  }
  return true;
}

const TensorView *CheckpointWeights::find(const std::string &name, const std::vector<int64_t> &shape,
                                          const char *dtype, std::string &error) const {
  auto found = checkpoint.tensors().find(name);
  if (found == checkpoint.tensors().end()) {
    error = "there is no such tensor";
    return nullptr;
  }
  const TensorView &view = found->second;
  if (view.dtype != dtype || view.shape != shape) {
    error = fmt::format("the file has {} [{}], but the model needs {} [{}]", view.dtype,
                        fmt::join(view.shape, ", "), dtype, fmt::join(shape, ", "));
    return nullptr;
  }
  return &view;
}

} // namespace smelt::checkpoint
