// How a weight lies in memory when CPU kernels read it; docs/artifact.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::artifact {
struct Weight;
} // namespace smelt::artifact

namespace smelt::runtime {

// Bytes of one tensor in the layout of the artifact, padding included; that of the file for row_major.
// The shape must have been verified.
uint64_t layoutBytes(const artifact::Weight &weight);

// A matrix [rows][columns] of the file as panels of 16 rows: 32-bit words (an f32, or two bf16 along a row)
// [rows / 16][words of a row][16].
struct PanelShape {
  uint64_t rows = 0, columns = 0;
  uint64_t elementBytes = 4; // 4 or 2

  uint64_t rowBytes() const { return columns * elementBytes; }
  uint64_t words() const { return (rowBytes() + 3) / 4; } // of one row, padding included
  uint64_t panels() const { return (rows + 15) / 16; }
  uint64_t panelBytes() const { return words() * 64; }
  uint64_t bytes() const { return panels() * panelBytes(); }
};

// Writes panels [begin, end) of the matrix at `source` to `target` (of the whole matrix, 64-byte aligned).
void packPanels(const PanelShape &shape, const std::byte *source, std::byte *target, uint64_t begin,
                uint64_t end);

} // namespace smelt::runtime
