#include "compiler/Budget/Attended.h"

#include <charconv>

namespace smelt::budget {

std::optional<Attended> Attended::parse(std::string_view text) {
  int64_t whole = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  const std::string_view fraction(rest, static_cast<size_t>(text.data() + text.size() - rest));
  const bool half = fraction == ".5";
  if (error != std::errc() || whole < 0 || text.front() == '-' || (whole == 0 && !half)) {
    return std::nullopt;
  }
  if (!half && !fraction.empty() && fraction != ".0") {
    return std::nullopt;
  }
  return Attended(whole, half);
}

std::string Attended::text() const { return std::to_string(whole_positions) + (half_position ? ".5" : ""); }

} // namespace smelt::budget
