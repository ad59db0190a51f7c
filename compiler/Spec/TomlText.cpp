#include "compiler/Spec/TomlText.h"

#include <algorithm>
#include <fmt/format.h>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

namespace smelt::spec {
namespace {

static_assert(TOML_MAX_NESTED_VALUES == kMaxTomlNesting);

Location locationOf(const toml::source_region &region) {
  return {static_cast<int64_t>(region.begin.line), static_cast<int64_t>(region.begin.column)};
}

TomlValue convert(const toml::node &node);

TomlTable convertTable(const toml::table &table) {
  TomlTable result;
  result.location = locationOf(table.source());
  for (const auto &[key, node] : table) {
    result.entries.push_back({std::string(key.str()), locationOf(key.source()), convert(node)});
  }
  std::sort(result.entries.begin(), result.entries.end(),
            [](const TomlEntry &a, const TomlEntry &b) { return a.location < b.location; });
  return result;
}

TomlValue convert(const toml::node &node) {
  TomlValue value{locationOf(node.source()), TomlDate{}};
  if (const toml::table *table = node.as_table()) {
    value.data = convertTable(*table);
  } else if (const toml::array *array = node.as_array()) {
    TomlArray converted;
    for (const toml::node &element : *array) {
      converted.values.push_back(convert(element));
    }
    value.data = std::move(converted);
  } else if (const auto *text = node.as_string()) {
    value.data = text->get();
  } else if (const auto *integer = node.as_integer()) {
    value.data = integer->get();
  } else if (const auto *real = node.as_floating_point()) {
    value.data = real->get();
  } else if (const auto *boolean = node.as_boolean()) {
    value.data = boolean->get();
  }
  return value;
}

// Refuses text that could nest deeply enough to exhaust the stack. Dots are counted wherever they stand:
// deciding which ones are inside strings would need the parser itself.
bool checkBounds(std::string_view text, Diagnostics &diagnostics) {
  if (text.size() > kMaxTomlBytes) {
    diagnostics.add({},
                    fmt::format("the file has {} bytes; a spec has at most {}", text.size(), kMaxTomlBytes));
    return false;
  }
  int64_t line = 1;
  size_t dots = 0;
  for (char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
    } else if (c == '.' && ++dots > kMaxTomlDotsPerLine) {
      diagnostics.add({line, 1}, fmt::format("more than {} dots on one line", kMaxTomlDotsPerLine));
      return false;
    }
  }
  return true;
}

} // namespace

const TomlEntry *TomlTable::find(std::string_view key) const {
  for (const TomlEntry &entry : entries) {
    if (entry.key == key) {
      return &entry;
    }
  }
  return nullptr;
}

std::string TomlValue::describe() const {
  if (const auto *integer = as<int64_t>()) {
    return fmt::format("the integer {}", *integer);
  }
  if (const auto *real = as<double>()) {
    return fmt::format("the number {}", *real);
  }
  if (const auto *boolean = as<bool>()) {
    return fmt::format("the boolean {}", *boolean);
  }
  if (const auto *text = as<std::string>()) {
    return fmt::format("the string {}", quoted(*text));
  }
  if (as<TomlDate>()) {
    return "a date or time";
  }
  return as<TomlArray>() ? "an array" : "a table";
}

std::optional<TomlTable> parseToml(std::string_view text, Diagnostics &diagnostics) {
  if (!checkBounds(text, diagnostics)) {
    return std::nullopt;
  }
  toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::parse_error &error = result.error();
    diagnostics.add(locationOf(error.source()), std::string(error.description()));
    return std::nullopt;
  }
  return convertTable(result.table());
}

std::string quoted(std::string_view text) {
  constexpr size_t kLongest = 64;
  std::string result = "\"";
  for (char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + (text.size() > kLongest ? "...\"" : "\"");
}

} // namespace smelt::spec
