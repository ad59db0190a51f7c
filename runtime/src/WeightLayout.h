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

// A matrix [rows][columns] as panels of 16 rows, each a sequence of lines of 64 bytes: 16 words of 32 bits,
// one of each row. A word is an f32, two bf16 or four i8 along its row. In a panel of i8 a line of scales
// comes before every 16 lines of codes, as 16 words are the codes of two blocks of 32: bf16
// [2 blocks][16 rows]. Codes are stored plus 128, as bytes 1..255; padding is 0 once decoded.
struct PanelShape {
  uint64_t rows = 0, columns = 0;
  uint64_t elementBytes = 4; // 4, 2, or 1 of i8

  static PanelShape of(const artifact::Weight &matrix);
  bool quantized() const { return elementBytes == 1; }
  uint64_t rowBytes() const { return columns * elementBytes; }
  uint64_t words() const { return (rowBytes() + 3) / 4; } // of one row, padding included
  uint64_t lines() const { return words() + (quantized() ? (words() + 15) / 16 : 0); } // of a panel
  // Where the 16 words of this index lie.
  uint64_t lineOf(uint64_t word) const { return quantized() ? word + word / 16 + 1 : word; }
  uint64_t panels() const { return (rows + 15) / 16; }
  uint64_t panelBytes() const { return lines() * 64; }
  uint64_t bytes() const { return panels() * panelBytes(); }
};

// Writes panels [begin, end) of the f32 or bf16 matrix at `source` to `target` (of the whole matrix, 64-byte
// aligned).
void packPanels(const PanelShape &shape, const std::byte *source, std::byte *target, uint64_t begin,
                uint64_t end);
// The same for an i8 matrix: codes [rows][columns], and their bf16 scales [rows][blocks] of any alignment.
void packQuantPanels(const PanelShape &shape, const std::byte *codes, const std::byte *scales,
                     std::byte *target, uint64_t begin, uint64_t end);

// Kernels multiply scales with sums of integers below 2^28, and add up to 2^12 such products, in f32.
// Whether all `count` scales at `scales`, of any alignment, are below 2^88 and neither negative nor NaN.
bool decodableScales(const std::byte *scales, uint64_t count);

} // namespace smelt::runtime
