// How weights lie in the memory of a device: the formulas of compiler/Codegen/CUDA/WeightPacking.h, by which
// kernels address them, repeated here because the runtime stands alone. tests/runtime compares the two. The
// runtime's own kernels follow runtime/src/cuda/PackedOffsetPtx.h.
#pragma once

#include <cstdint>

namespace smelt::artifact {
enum class DeviceLayout : uint8_t;
struct Weight;
} // namespace smelt::artifact

namespace smelt::runtime::cuda {

constexpr uint64_t tileSize = 64;         // rows and columns of a tile
constexpr uint64_t weightAlignment = 256; // of every tensor, or of expert 0 of a layer

constexpr uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
// Layout `rows`: elements from one row to the next.
constexpr uint64_t rowStride(uint64_t columns) { return roundUp(columns, 8); }
// Layout `tiles`.
constexpr uint64_t paddedRows(uint64_t rows) { return roundUp(rows, 8); }
constexpr uint64_t paddedColumns(uint64_t columns) { return roundUp(columns, 16); }
// Bytes from one expert to the next.
constexpr uint64_t expertStride(uint64_t rows, uint64_t columns) {
  return roundUp(2 * paddedRows(rows) * paddedColumns(columns), 128);
}

// One tensor of a weight as a bf16 matrix: [1][elements] for layout `vector`.
struct PackedShape {
  PackedShape(const artifact::Weight &weight, artifact::DeviceLayout layout);

  // Whether the packed tensor is the bytes of its file, with zeros behind them.
  bool isPlain() const { return !tiled() && (rows == 1 || columns == strideColumns); }
  // Rows between multiples of this are packed by themselves.
  uint64_t rowStep() const { return tiled() ? tileSize : 1; }
  bool tiled() const;

  artifact::DeviceLayout layout;
  uint64_t rows = 0, columns = 0; // of the tensor in its file
  uint64_t strideRows = 0;        // rows, padding included
  uint64_t strideColumns = 0;     // columns, padding included
  uint64_t bytes = 0;             // of the packed tensor: to the next expert for `tiles`
};

// False when the packed size of one tensor overflows or exceeds 2^40 bytes.
bool packedSizeFits(const artifact::Weight &weight);

} // namespace smelt::runtime::cuda
