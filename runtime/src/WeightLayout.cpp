#include "runtime/src/WeightLayout.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace smelt::runtime {

using namespace artifact;

uint64_t layoutBytes(const Weight &weight) {
  if (weight.layout() == WeightLayout::row_major) {
    return tensorBytes(weight);
  }
  uint64_t element = weight.dtype() == DType::bf16 ? 2 : 4;
  return PanelShape{weight.shape()->Get(0), weight.shape()->Get(1), element}.bytes();
}

namespace {

constexpr uint64_t panelRows = 16;

// Word `index` of a row; the last one may be half a word.
uint32_t wordOf(const PanelShape &shape, const std::byte *row, uint64_t index) {
  uint32_t word = 0;
  uint64_t offset = index * 4;
  std::memcpy(&word, row + offset, offset + 4 <= shape.rowBytes() ? 4 : shape.rowBytes() - offset);
  return word;
}

#if defined(__SSE2__)
// Four words of each of the 16 rows to four lines of the panel. The panel is not read again soon, so its
// lines pass by the caches.
void transposeWords(const std::byte *const *rows, uint64_t offset, std::byte *target) {
  auto *lines = reinterpret_cast<float *>(target);
  for (uint64_t group = 0; group < panelRows; group += 4) {
    auto load = [&](uint64_t row) {
      return _mm_loadu_ps(reinterpret_cast<const float *>(rows[group + row] + offset));
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
void transposeWords(const std::byte *const *rows, uint64_t offset, std::byte *target) {
  for (uint64_t word = 0; word < 4; ++word) {
    for (uint64_t row = 0; row < panelRows; ++row) {
      std::memcpy(target + (word * panelRows + row) * 4, rows[row] + offset + word * 4, 4);
    }
  }
}
#endif

} // namespace

void packPanels(const PanelShape &shape, const std::byte *source, std::byte *target, uint64_t begin,
                uint64_t end) {
  uint64_t whole = shape.rowBytes() / 16 * 4; // words that move by four
  for (uint64_t panel = begin; panel < end; ++panel) {
    uint64_t first = panel * panelRows, have = std::min(panelRows, shape.rows - first);
    std::byte *to = target + panel * shape.panelBytes();
    const std::byte *rows[panelRows];
    for (uint64_t row = 0; row < panelRows; ++row) {
      rows[row] = source + (first + std::min(row, have - 1)) * shape.rowBytes();
    }
    uint64_t word = 0;
    if (have == panelRows) {
      for (; word < whole; word += 4) {
        transposeWords(rows, word * 4, to + word * 64);
      }
    }
    for (; word < shape.words(); ++word) {
      uint32_t line[panelRows] = {};
      for (uint64_t row = 0; row < have; ++row) {
        line[row] = wordOf(shape, rows[row], word);
      }
      std::memcpy(to + word * 64, line, sizeof line);
    }
  }
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

} // namespace smelt::runtime
