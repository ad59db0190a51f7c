#include "compiler/Spec/TomlText.h"

#include "compiler/Spec/TomlScan.h"

#include <algorithm>
#include <fmt/format.h>

namespace {
// A broken assertion of the TOML library.
struct ParserDefect {};
} // namespace

// The library turns its assertions into assumptions of the optimiser when NDEBUG is set, and some do not hold
// on hostile text. Here a broken one is an error like any other; that needs its exceptions, which end in
// parseToml.
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : throw ParserDefect())
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
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
  if (!scanToml(text, diagnostics)) {
    return std::nullopt;
  }
  try {
    return convertTable(toml::parse(text));
  } catch (const toml::parse_error &error) {
    diagnostics.add(locationOf(error.source()), std::string(error.description()));
  } catch (const ParserDefect &) {
    diagnostics.add({}, "the TOML library cannot parse this text");
  }
  return std::nullopt;
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
