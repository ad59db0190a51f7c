// How weights lie in device memory. The runtime packs them so at load (runtime/src/cuda/WeightLayout.h
// repeats these formulas; tests/runtime compares the two), kernels address them by what is here.
//
// rows:  matrix [N][K] bf16, row n at byte n * rowStride(K), rowStride = K rounded up to 8 elements; the
// padding
//        is zero. Dense projections, router, embedding, head: one matrix a binding.
// tiles: matrix [N][K] bf16 of one expert, K padded with zeros to paddedColumns(K), a multiple of 16, rows to
//        paddedRows(N), a multiple of 8. Cut into tiles of 64 rows x 64 columns, ragged at the ends (no tile
//        is padded beyond the multiples of 8 rows and 16 columns): tile row i, then tile column j,
//        contiguous. In a tile of r rows and c columns, block (a, b) of 8 rows x 8 columns is at 64 * (a * (c
//        / 8) + b) elements, row-major, 16 bytes a row: the order of shared memory that ldmatrix and wgmma
//        (no swizzle) read. Experts follow each other at expertStride(N, K), a multiple of 128 bytes.
#pragma once

#include <cstdint>

namespace smelt::codegen::cuda {

constexpr int64_t TILE = 64;

constexpr int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
// Elements from one row to the next in layout `rows`.
constexpr int64_t rowStride(int64_t columns) { return roundUp(columns, 8); }

constexpr int64_t paddedRows(int64_t rows) { return roundUp(rows, 8); }
constexpr int64_t paddedColumns(int64_t columns) { return roundUp(columns, 16); }
// Elements from the start of an expert's matrix to tile (i, j) of layout `tiles`.
constexpr int64_t tileOffset(int64_t rows, int64_t columns, int64_t i, int64_t j) {
  int64_t below = paddedRows(rows) - i * TILE;
  return i * TILE * paddedColumns(columns) + j * TILE * (below < TILE ? below : TILE);
}
// Bytes from one expert to the next in layout `tiles`.
constexpr int64_t expertStride(int64_t rows, int64_t columns) {
  return roundUp(2 * paddedRows(rows) * paddedColumns(columns), 128);
}

} // namespace smelt::codegen::cuda
