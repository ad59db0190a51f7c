// The size of one sequence's cache after n positions: a piecewise affine law, because windows stop growing
// and recurrent states never do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace smelt::budget {

// Elements of the cache: fixed + slope * n + sum over windows of slope * min(n, positions).
struct KvLaw {
  struct Window {
    int64_t positions = 0;
    int64_t slope = 0; // elements per position, while n <= positions

    bool operator==(const Window &) const = default;
  };
  // fixed + slope * n for n from `from` up to the next piece.
  struct Piece {
    int64_t from = 0;
    int64_t fixed = 0;
    int64_t slope = 0;

    bool operator==(const Piece &) const = default;
  };

  int64_t fixed = 0;           // recurrent states
  int64_t slope = 0;           // layers that keep every position
  std::vector<Window> windows; // by positions, each once

  // Nothing when it does not fit in 64 bits.
  std::optional<int64_t> elements(int64_t positions) const;
  // At least one; each breakpoint is the window that fills up there.
  std::vector<Piece> pieces() const;
  bool operator==(const KvLaw &) const = default;
};

} // namespace smelt::budget
