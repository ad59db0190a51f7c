// Who touched each word of memory last, in compact stamps: the base of the race checker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace smelt::emu {

/// One access: CTA (a number no other CTA of the process had), thread, and the two clocks of its warp.
struct Stamp {
  uint32_t cta = 0; ///< 0: none
  uint32_t thread : 10 = 0;
  uint32_t clock : 22 = 0; ///< advanced by what orders the warp against other warps
  uint32_t sync = 0;       ///< advanced by what orders the lanes of the warp
  uint32_t line : 20 = 0;  ///< PTX line
  uint32_t bytes : 4 = 0;  ///< of the word
  uint32_t atomic : 1 = 0;
  uint32_t in_flight : 1 = 0; ///< of an asynchronous copy that nobody has waited for
  uint32_t unfenced : 1 = 0;  ///< written through the generic proxy, no proxy fence since
};
static_assert(sizeof(Stamp) == 16);

/// The last writes and reads of a 4-byte word: two of each, so that halves and "somebody other than me" are
/// kept.
struct Cell {
  Stamp writes[2], reads[2];
};

/// Launches, by the number of their first CTA, that last wrote a word and that last read it through the
/// read-only path. Much smaller than a cell: weights are read this way.
struct WordTags {
  uint32_t written = 0, read_only = 0;
};

/// Zeroed pages; throws bad_alloc. Null may be unmapped.
void *mapZeroed(size_t bytes);
void unmapZeroed(void *pages, size_t bytes);

/// Entries for a range of memory, in zeroed pages that the system commits on first touch.
template <class Entry> class ShadowMap {
public:
  ShadowMap() = default;
  ShadowMap(const ShadowMap &) = delete;
  ShadowMap &operator=(const ShadowMap &) = delete;
  ~ShadowMap() { unmapZeroed(entries, mapped); }
  /// The entry of the word at byte `offset` of a range of `bytes` bytes.
  Entry &at(uint64_t offset, uint64_t bytes) {
    if (!entries) {
      mapped = ((bytes + 3) / 4 + 1) * sizeof(Entry);
      entries = static_cast<Entry *>(mapZeroed(mapped));
    }
    return entries[offset / 4];
  }

private:
  Entry *entries = nullptr;
  size_t mapped = 0;
};

} // namespace smelt::emu
