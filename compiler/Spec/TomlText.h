// TOML text as a plain tree with locations. The TOML library stays behind this header.
#pragma once

#include "compiler/Spec/Diagnostics.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace smelt::spec {

struct TomlEntry;
struct TomlValue;

struct TomlTable {
  Location location; // of the header or the opening brace
  std::vector<TomlEntry> entries;

  const TomlEntry *find(std::string_view key) const;
};

struct TomlArray {
  std::vector<TomlValue> values;
};

// A date or time: no spec field takes one, so only its presence is kept.
struct TomlDate {};

struct TomlValue {
  Location location;
  std::variant<int64_t, double, bool, std::string, TomlDate, TomlArray, TomlTable> data;

  template <typename T> const T *as() const { return std::get_if<T>(&data); }
  // What the value is, for messages: "the string \"abc\"", "a table", "an array".
  std::string describe() const;
};

struct TomlEntry {
  std::string key;
  Location location;
  TomlValue value;
};

// Values nested deeper are refused.
inline constexpr size_t kMaxTomlNesting = 32;

// Nothing when the text is not TOML; the problem is then in diagnostics.
std::optional<TomlTable> parseToml(std::string_view text, Diagnostics &diagnostics);

// Text as it may appear in a message: quotes, control characters and bytes beyond ASCII escaped, long text
// cut.
std::string quoted(std::string_view text);

} // namespace smelt::spec
