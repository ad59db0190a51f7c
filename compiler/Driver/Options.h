// Checks of option values whose messages say what was expected.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <utility>
#include <vector>

namespace smelt::driver {

// One of the words, each standing for a value of an enumeration.
template <typename Enum> CLI::Validator choice(std::vector<std::pair<std::string, Enum>> words) {
  auto check = [words](std::string &text) -> std::string {
    std::vector<std::string> known;
    for (const auto &[word, value] : words) {
      if (word == text) {
        text = std::to_string(static_cast<int>(value));
        return "";
      }
      known.push_back(word);
    }
    return fmt::format("'{}' is not one of {}", text, fmt::join(known, ", "));
  };
  return CLI::Validator(check, "");
}

// A whole number from `lowest` to `highest`, both included.
CLI::Validator wholeNumber(uint64_t lowest, uint64_t highest);

// A decimal number.
CLI::Validator number();

// A mean number of attended positions, as budget::Attended reads it.
CLI::Validator attendedPositions();

// A size of at least one byte, with an optional unit, decimal (1.5GB) or binary (2GiB); becomes a plain
// number.
CLI::Validator byteSize();

} // namespace smelt::driver
