// The values a free variable of the matcher may take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::planner {

// The points the search may visit: multiples of a step within a range, or a list.
struct Axis {
  int64_t step = 1;
  int64_t low = 1;
  int64_t high = 1;
  std::vector<int64_t> list = {}; // ascending and without repeats; when not empty, these and no others

  // First and last value; first() > last() when there is none.
  int64_t first() const { return list.empty() ? (low + step - 1) / step * step : list.front(); }
  int64_t last() const { return list.empty() ? high / step * step : list.back(); }
  bool empty() const { return first() > last(); }
  std::vector<int64_t> values() const;
  // The nearest value that is at most, or at least, x.
  std::optional<int64_t> atOrBelow(int64_t x) const;
  std::optional<int64_t> atOrAbove(int64_t x) const;
  // The values that are also multiples of a factor. Nothing when there is none.
  std::optional<Axis> multiplesOf(int64_t factor) const;
  // "multiples of 8 from 168 to 1344", "one of 2, 4" or "4".
  std::string text() const;
};

// What a user asks of a variable; whatever is left out is the matcher's default for it.
struct Lattice {
  std::optional<int64_t> multiple_of = std::nullopt;
  std::optional<int64_t> min = std::nullopt;
  std::optional<int64_t> max = std::nullopt;
  std::vector<int64_t> list = {}; // one value: the variable is pinned

  static Lattice pinned(int64_t value) { return {.list = {value}}; }
  bool isDefault() const { return !multiple_of && !min && !max && list.empty(); }
  // The default axis with what was asked for in its place.
  Axis resolve(const Axis &default_axis) const;
};

// "1024" pins, "2,3,4" lists, "768..2048" is a range, "/64" takes multiples; a range and a step combine as
// "768..2048/64", and either end of a range may be left out. Nothing when the text is none of these.
std::optional<Lattice> parseLattice(std::string_view text);

} // namespace smelt::planner
