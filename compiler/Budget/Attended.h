// How many positions a query attends to on average: the one input of a budget that is not in the spec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace smelt::budget {

// What budgets assume when nothing else is asked for: the mean of the published SMELT grid, whose training
// documents are far shorter than its context of 4096. Numbers then compare with the published ones.
inline constexpr int64_t kDefaultAttended = 392;

// A positive mean that is a multiple of one half, kept exactly: causal attention over S positions attends to
// (S + 1) / 2 on average.
class Attended {
public:
  Attended() : Attended(kDefaultAttended, false) {}

  static Attended positions(int64_t count) { return Attended(count, false); }
  // Every query sees all S positions.
  static Attended full(int64_t context) { return positions(context); }
  // Position i of S sees i + 1 positions: (S + 1) / 2.
  static Attended causal(int64_t context) { return Attended(context / 2 + context % 2, context % 2 == 0); }
  // "392" or "392.5", at least 0.5. Nothing when the text is anything else or does not fit 64 bits.
  static std::optional<Attended> parse(std::string_view text);

  int64_t whole() const { return whole_positions; }
  bool half() const { return half_position; }
  // "392" or "392.5".
  std::string text() const;
  bool operator==(const Attended &) const = default;

private:
  Attended(int64_t whole, bool half) : whole_positions(whole), half_position(half) {}

  int64_t whole_positions;
  bool half_position;
};

} // namespace smelt::budget
