#include "compiler/Planner/Lattice.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <numeric>

namespace smelt::planner {
namespace {

std::optional<int64_t> parsePositive(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? std::optional(value)
                                                                               : std::nullopt;
}

std::optional<Lattice> parseList(std::string_view text) {
  Lattice lattice;
  while (true) {
    const size_t comma = text.find(',');
    const std::optional<int64_t> value = parsePositive(text.substr(0, comma));
    if (!value) {
      return std::nullopt;
    }
    lattice.list.push_back(*value);
    if (comma == std::string_view::npos) {
      return lattice;
    }
    text.remove_prefix(comma + 1);
  }
}

// An end of a range: nothing is no limit.
bool parseEnd(std::string_view text, std::optional<int64_t> &end) {
  if (!text.empty()) {
    end = parsePositive(text);
  }
  return text.empty() || end;
}

} // namespace

std::vector<int64_t> Axis::values() const {
  if (!list.empty()) {
    return list;
  }
  std::vector<int64_t> result;
  for (int64_t value = first(); value <= last(); value += step) {
    result.push_back(value);
  }
  return result;
}

std::optional<int64_t> Axis::atOrBelow(int64_t x) const {
  if (empty() || x < first()) {
    return std::nullopt;
  }
  if (list.empty()) {
    return std::min(x / step * step, last());
  }
  return *(std::upper_bound(list.begin(), list.end(), x) - 1);
}

std::optional<int64_t> Axis::atOrAbove(int64_t x) const {
  if (empty() || x > last()) {
    return std::nullopt;
  }
  if (list.empty()) {
    return x <= first() ? first() : (x + step - 1) / step * step;
  }
  return *std::lower_bound(list.begin(), list.end(), x);
}

std::optional<Axis> Axis::multiplesOf(int64_t factor) const {
  Axis result{std::lcm(step, factor), low, high};
  if (!list.empty()) {
    std::copy_if(list.begin(), list.end(), std::back_inserter(result.list),
                 [&](int64_t value) { return value % factor == 0; });
    return result.list.empty() ? std::nullopt : std::optional(result);
  }
  return result.empty() ? std::nullopt : std::optional(result);
}

std::string Axis::text() const {
  if (!list.empty()) {
    return (list.size() > 1 ? "one of " : "") + fmt::format("{}", fmt::join(list, ", "));
  }
  return step == 1 ? fmt::format("from {} to {}", low, high)
                   : fmt::format("multiples of {} from {} to {}", step, low, high);
}

Axis Lattice::resolve(const Axis &default_axis) const {
  Axis axis{multiple_of.value_or(default_axis.step), min.value_or(default_axis.low),
            max.value_or(default_axis.high)};
  if (isDefault()) {
    axis.list = default_axis.list;
  }
  for (const int64_t value : list) {
    if (value % multiple_of.value_or(1) == 0 && value >= min.value_or(value) &&
        value <= max.value_or(value)) {
      axis.list.push_back(value);
    }
  }
  std::sort(axis.list.begin(), axis.list.end());
  axis.list.erase(std::unique(axis.list.begin(), axis.list.end()), axis.list.end());
  if (!list.empty() && axis.list.empty()) {
    axis = {1, 1, 0}; // a list of which nothing is left has no value, rather than the default's
  }
  return axis;
}

std::optional<Lattice> parseLattice(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view range = text.substr(0, slash);
  const size_t dots = range.find("..");
  if (slash == std::string_view::npos && dots == std::string_view::npos) {
    return parseList(text);
  }
  Lattice lattice;
  if (slash != std::string_view::npos && !(lattice.multiple_of = parsePositive(text.substr(slash + 1)))) {
    return std::nullopt;
  }
  if (dots == std::string_view::npos) {
    return range.empty() ? std::optional(lattice) : std::nullopt;
  }
  const bool valid =
      parseEnd(range.substr(0, dots), lattice.min) && parseEnd(range.substr(dots + 2), lattice.max);
  return valid ? std::optional(lattice) : std::nullopt;
}

} // namespace smelt::planner
