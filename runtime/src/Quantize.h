// Weight-only int8: symmetric, one bf16 scale for 32 weights along a row; docs/quantization.md. Files made by
// `smeltc weights quantize` and weights quantised at load hold the same bits, since both come from here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::runtime {

// Weights that share a scale.
inline constexpr uint64_t quantBlock = 32;

// Scales of a row of `columns` weights; the last block may be short.
constexpr uint64_t quantBlocks(uint64_t columns) { return (columns + quantBlock - 1) / quantBlock; }

// Quantises one row: values[i] becomes codes[i] in [-127, 127], and scales[b] is the bf16 scale of block b,
// the smallest with 127 * scale >= the block's largest magnitude, so that |values[i] - codes[i] * scale| <=
// scale / 2. A block of zeros has scale 0. False, with nothing of use written, when a value is NaN or
// infinite.
bool quantizeRow(const float *values, uint64_t columns, int8_t *codes, uint16_t *scales);

// codes[i] * scale, exact in f32.
void dequantizeRow(const int8_t *codes, const uint16_t *scales, uint64_t columns, float *values);

// Conversions of `count` values; to bf16 to nearest, ties to even.
void widenBf16(const uint16_t *in, float *out, size_t count);
void roundToBf16(const float *in, uint16_t *out, size_t count);

} // namespace smelt::runtime
