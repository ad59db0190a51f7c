#include "runtime/src/WeightLayout.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/Quantize.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace smelt::runtime {

using namespace artifact;

PanelShape PanelShape::of(const Weight &matrix) {
  return {matrix.shape()->Get(0), matrix.shape()->Get(1), runtime::elementBytes(matrix.dtype())};
}

uint64_t layoutBytes(const Weight &weight) {
  return weight.layout() == WeightLayout::row_major ? tensorBytes(weight) : PanelShape::of(weight).bytes();
}

namespace {

constexpr uint64_t panelRows = 16;

// Word `index` of a row; of the last one a part may exist.
uint32_t wordOf(const PanelShape &shape, const std::byte *row, uint64_t index) {
  uint32_t word = 0;
  uint64_t offset = index * 4;
  std::memcpy(&word, row + offset, offset + 4 <= shape.rowBytes() ? 4 : shape.rowBytes() - offset);
  return word;
}

#if defined(__SSE2__)
// Four words of each of the 16 rows, their bits flipped where `flip` has ones, to four lines of the panel.
// The panel is not read again soon, so its lines pass by the caches.
void transposeWords(const std::byte *const *rows, uint64_t offset, uint32_t flip, std::byte *target) {
  auto *lines = reinterpret_cast<float *>(target);
  __m128 flipped = _mm_castsi128_ps(_mm_set1_epi32(int32_t(flip)));
  for (uint64_t group = 0; group < panelRows; group += 4) {
    auto load = [&](uint64_t row) {
      return _mm_xor_ps(_mm_loadu_ps(reinterpret_cast<const float *>(rows[group + row] + offset)), flipped);
    };
    __m128 a = load(0), b = load(1), c = load(2), d = load(3);
    __m128 ab = _mm_unpacklo_ps(a, b), cd = _mm_unpacklo_ps(c, d);
    __m128 abHigh = _mm_unpackhi_ps(a, b), cdHigh = _mm_unpackhi_ps(c, d);
    _mm_stream_ps(lines + group, _mm_movelh_ps(ab, cd));
    _mm_stream_ps(lines + 16 + group, _mm_movehl_ps(cd, ab));
    _mm_stream_ps(lines + 32 + group, _mm_movelh_ps(abHigh, cdHigh));
    _mm_stream_ps(lines + 48 + group, _mm_movehl_ps(cdHigh, abHigh));
  }
}
#else
void transposeWords(const std::byte *const *rows, uint64_t offset, uint32_t flip, std::byte *target) {
  for (uint64_t word = 0; word < 4; ++word) {
    for (uint64_t row = 0; row < panelRows; ++row) {
      uint32_t value;
      std::memcpy(&value, rows[row] + offset + word * 4, 4);
      value ^= flip;
      std::memcpy(target + (word * panelRows + row) * 4, &value, 4);
    }
  }
}
#endif

// From a signed code to the byte in its panel: the same, plus 128.
constexpr uint32_t codeFlip = 0x80808080;

// The lines of a panel's elements; `have` of its rows exist.
void packWords(const PanelShape &shape, const std::byte *source, uint64_t have, std::byte *panel) {
  uint32_t flip = shape.quantized() ? codeFlip : 0;
  const std::byte *rows[panelRows];
  for (uint64_t row = 0; row < panelRows; ++row) {
    rows[row] = source + std::min(row, have - 1) * shape.rowBytes();
  }
  uint64_t whole = have == panelRows ? shape.rowBytes() / 16 * 4 : 0; // words that move by four
  for (uint64_t word = 0; word < whole; word += 4) {
    transposeWords(rows, word * 4, flip, panel + shape.lineOf(word) * 64);
  }
  for (uint64_t word = whole; word < shape.words(); ++word) {
    uint32_t line[panelRows] = {};
    for (uint64_t row = 0; row < have; ++row) {
      line[row] = wordOf(shape, rows[row], word);
    }
    for (uint32_t &value : line) {
      value ^= flip;
    }
    std::memcpy(panel + shape.lineOf(word) * 64, line, sizeof line);
  }
}

// The lines of a panel's scales; those of rows and blocks that do not exist are 0.
void packScales(const PanelShape &shape, const std::byte *source, uint64_t have, std::byte *panel) {
  uint64_t blocks = quantBlocks(shape.columns);
  for (uint64_t block = 0; block < blocks; block += 2) {
    uint16_t line[2][panelRows] = {};
    for (uint64_t row = 0; row < have; ++row) {
      for (uint64_t part = 0; part < std::min<uint64_t>(2, blocks - block); ++part) {
        std::memcpy(&line[part][row], source + (row * blocks + block + part) * 2, 2);
      }
    }
    std::memcpy(panel + (shape.lineOf(block * 8) - 1) * 64, line, sizeof line);
  }
}

void finishStores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

uint64_t rowsOf(const PanelShape &shape, uint64_t panel) {
  return std::min(panelRows, shape.rows - panel * panelRows);
}

} // namespace

void packPanels(const PanelShape &shape, const std::byte *source, std::byte *target, uint64_t begin,
                uint64_t end) {
  for (uint64_t panel = begin; panel < end; ++panel) {
    packWords(shape, source + panel * panelRows * shape.rowBytes(), rowsOf(shape, panel),
              target + panel * shape.panelBytes());
  }
  finishStores();
}

void packQuantPanels(const PanelShape &shape, const std::byte *codes, const std::byte *scales,
                     std::byte *target, uint64_t begin, uint64_t end) {
  uint64_t scaleBytes = 2 * quantBlocks(shape.columns);
  for (uint64_t panel = begin; panel < end; ++panel) {
    std::byte *to = target + panel * shape.panelBytes();
    uint64_t first = panel * panelRows, have = rowsOf(shape, panel);
    packWords(shape, codes + first * shape.rowBytes(), have, to);
    packScales(shape, scales + first * scaleBytes, have, to);
  }
  finishStores();
}

bool decodableScales(const std::byte *scales, uint64_t count) {
  constexpr uint16_t tooLarge = (127 + 88) << 7; // 2^88; as bits, NaN and negative numbers are larger
  for (uint64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, scales + 2 * i, 2);
    if (bits >= tooLarge) {
      return false;
    }
  }
  return true;
}

} // namespace smelt::runtime
