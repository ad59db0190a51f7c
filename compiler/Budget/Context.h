// How far tokens look back: what attention costs depends on it, and nothing else does.
#pragma once

#include "compiler/Budget/Architecture.h"
#include "compiler/Budget/Attended.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::budget {

// An exact mean: `total` positions attended to by `queries` queries together.
struct Mean {
  int64_t total = 0;
  int64_t queries = 1;

  int64_t whole() const { return total / queries; }
  int64_t rest() const { return total % queries; } // in parts of `queries`
};

class Context {
public:
  // Longest sequence and packed total; keeps every sum of positions within 64 bits.
  static constexpr int64_t kMaxLength = int64_t{1} << 31;

  Context() : Context(Attended()) {}
  // A mean over whatever is trained on. It has no distribution, so a window caps it.
  explicit Context(Attended mean) : kind(Kind::mean), attended(mean) {}
  // Every token attends to all S positions, or to a whole window: no causal mask is taken off.
  static Context full(int64_t length) { return Context(Kind::full, {length}); }
  // Position i of S attends to i + 1 positions.
  static Context causal(int64_t length) { return Context(Kind::packed, {length}); }
  // Causal, and no layer looks back further than `window` positions.
  static Context window(int64_t length, int64_t window);
  // Causal documents of these lengths, each attending to itself alone.
  static Context packed(std::vector<int64_t> lengths) { return Context(Kind::packed, std::move(lengths)); }

  // "mean:392.5", "full:4096", "causal:4096", "window:4096:512", "packed:1000,3096"; nothing for anything
  // else.
  static std::optional<Context> parse(std::string_view text);
  std::string text() const;
  // "392 attended positions" or "a context of causal:4096".
  std::string words() const;

  // Positions attended to by a layer of that reach. `size` is the layer's window or chunk.
  Mean mean(Reach reach, int64_t size) const;

private:
  enum class Kind { mean, full, packed };
  Context(Kind kind, std::vector<int64_t> lengths) : kind(kind), lengths(std::move(lengths)) {}

  Kind kind;
  Attended attended;
  std::vector<int64_t> lengths;
  int64_t cap = 0; // a window over all layers; 0 for none
};

// Positions that S causal queries attend to within a window of W: W(W + 1)/2 + (S - W)W, or S(S + 1)/2 up to
// W.
int64_t causalPositions(int64_t length, int64_t window);

} // namespace smelt::budget
