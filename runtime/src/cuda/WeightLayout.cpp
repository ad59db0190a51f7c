#include "runtime/src/cuda/WeightLayout.h"

#include "runtime/schema/manifest_generated.h"

namespace smelt::runtime::cuda {

using artifact::DeviceLayout;

PackedShape::PackedShape(const artifact::Weight &weight, DeviceLayout layout) : layout(layout) {
  const auto &shape = *weight.shape();
  if (layout == DeviceLayout::vector) {
    rows = 1;
    columns = 1;
    for (uint64_t dim : shape) {
      columns *= dim;
    }
    strideRows = 1;
    strideColumns = roundUp(columns, 8); // the last 16 bytes are written as a whole
    bytes = 2 * strideColumns;
    return;
  }
  rows = shape.Get(0);
  columns = shape.Get(1);
  strideRows = tiled() ? paddedRows(rows) : rows;
  strideColumns = tiled() ? paddedColumns(columns) : rowStride(columns);
  bytes = tiled() ? expertStride(rows, columns) : 2 * rows * strideColumns;
}

bool PackedShape::tiled() const { return layout == DeviceLayout::tiles; }

bool packedSizeFits(const artifact::Weight &weight) {
  constexpr uint64_t maxElements = uint64_t(1) << 39;
  uint64_t padded = 2;
  for (uint64_t dim : *weight.shape()) {
    if (dim > maxElements || __builtin_mul_overflow(padded, roundUp(dim, 16), &padded) ||
        padded > 2 * maxElements) {
      return false;
    }
  }
  return true;
}

} // namespace smelt::runtime::cuda
