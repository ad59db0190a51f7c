#include "compiler/Driver/Options.h"

#include "compiler/Budget/Attended.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace smelt::driver {

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr std::array units = {
    Unit{"", 1},      Unit{"B", 1},        Unit{"KB", 1e3},     Unit{"MB", 1e6},     Unit{"GB", 1e9},
    Unit{"TB", 1e12}, Unit{"KIB", 0x1p10}, Unit{"MIB", 0x1p20}, Unit{"GIB", 0x1p30}, Unit{"TIB", 0x1p40}};

std::optional<uint64_t> parseBytes(std::string_view text) {
  double number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) {
    return std::nullopt;
  }
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::toupper(c); });
  auto known =
      std::find_if(units.begin(), units.end(), [&](const Unit &candidate) { return candidate.name == unit; });
  if (known == units.end()) {
    return std::nullopt;
  }
  double bytes = std::floor(number * known->bytes);
  if (!(bytes >= 1 && bytes < 0x1p63)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

} // namespace

CLI::Validator wholeNumber(uint64_t lowest, uint64_t highest) {
  auto check = [lowest, highest](std::string &text) -> std::string {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= lowest && value <= highest) {
      return "";
    }
    return fmt::format("'{}' is not a whole number from {} to {}", text, lowest, highest);
  };
  return CLI::Validator(check, "");
}

CLI::Validator number() {
  auto check = [](std::string &text) -> std::string {
    double value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool whole = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
    return whole ? "" : fmt::format("'{}' is not a number", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator attendedPositions() {
  auto check = [](std::string &text) -> std::string {
    return budget::Attended::parse(text) ? "" : fmt::format("'{}' is not a positive multiple of 0.5", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator byteSize() {
  auto check = [](std::string &text) -> std::string {
    std::optional<uint64_t> bytes = parseBytes(text);
    if (!bytes) {
      return fmt::format("'{}' is not a size such as 5GB, 500MB or 2GiB", text);
    }
    text = std::to_string(*bytes);
    return "";
  };
  return CLI::Validator(check, "");
}

} // namespace smelt::driver
