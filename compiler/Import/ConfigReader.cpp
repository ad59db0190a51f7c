#include "compiler/Import/ConfigReader.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::hf {
namespace {

using nlohmann::json;

// A value for a message: short, whatever it is.
std::string shown(const json &value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) {
    text.resize(57);
    text += "...";
  }
  return text;
}

spec::Location locationAt(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const auto characters =
      std::count_if(before.begin() + static_cast<std::ptrdiff_t>(line_start), before.end(),
                    [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return {.line = 1 + std::count(before.begin(), before.end(), '\n'), .column = 1 + characters};
}

} // namespace

spec::Location locateKey(std::string_view text, size_t start, std::string_view key) {
  const std::string quoted = fmt::format("\"{}\"", key);
  for (size_t at = text.find(quoted, start); at != std::string_view::npos; at = text.find(quoted, at + 1)) {
    const size_t next = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (next != std::string_view::npos && text[next] == ':') {
      return locationAt(text, at);
    }
  }
  return {};
}

void ConfigReader::problem(std::string_view key, std::string message) {
  problems.add(locateKey(text, start, key), std::move(message));
}

const json *ConfigReader::find(Key key) {
  const json *found = nullptr;
  std::string_view found_as;
  for (std::string_view name : key) {
    const auto entry = object.find(std::string(name));
    if (entry == object.end()) {
      continue;
    }
    read.emplace(name);
    if (entry->is_null()) {
      continue;
    }
    if (found != nullptr && *found != *entry) {
      problem(name, fmt::format("'{}' = {} and '{}' = {} are two names of one thing; remove the wrong one",
                                found_as, shown(*found), name, shown(*entry)));
    }
    found = found == nullptr ? &*entry : found;
    found_as = found_as.empty() ? name : found_as;
  }
  return found;
}

bool ConfigReader::has(Key key) { return find(key) != nullptr; }
const json *ConfigReader::value(Key key) { return find(key); }

std::optional<int64_t> ConfigReader::whole(Key key, int64_t least, int64_t most) {
  const json *entry = find(key);
  if (entry == nullptr) {
    return std::nullopt;
  }
  const bool fits = entry->is_number_unsigned() ? entry->get<uint64_t>() <= static_cast<uint64_t>(most)
                                                : entry->is_number_integer() && entry->get<int64_t>() <= most;
  if (!fits || entry->get<int64_t>() < least) {
    problem(*key.begin(), fmt::format("'{}' must be a whole number from {} to {}, not {}", *key.begin(),
                                      least, most, shown(*entry)));
    return least;
  }
  return entry->get<int64_t>();
}

bool ConfigReader::given(std::string_view key) {
  read.emplace(key);
  return object.contains(std::string(key));
}

int64_t ConfigReader::size(Key key) { return sizeUpTo(key, kMaxSize); }

int64_t ConfigReader::sizeUpTo(Key key, int64_t most) {
  const auto value = whole(key, 1, most);
  if (!value) {
    std::string others;
    for (const auto *other = key.begin() + 1; other != key.end(); ++other) {
      others += fmt::format(" (or '{}')", *other);
    }
    problem(*key.begin(), fmt::format("'{}'{} is missing", *key.begin(), others));
  }
  return value.value_or(1);
}

int64_t ConfigReader::size(Key key, int64_t missing) { return whole(key, 1, kMaxSize).value_or(missing); }
int64_t ConfigReader::count(Key key, int64_t missing) { return whole(key, 0, kMaxSize).value_or(missing); }
std::optional<int64_t> ConfigReader::optionalSize(Key key) { return whole(key, 1, kMaxSize); }

bool ConfigReader::flag(Key key, bool missing) {
  const json *entry = find(key);
  if (entry == nullptr) {
    return missing;
  }
  if (!entry->is_boolean()) {
    problem(*key.begin(), fmt::format("'{}' must be true or false, not {}", *key.begin(), shown(*entry)));
    return missing;
  }
  return entry->get<bool>();
}

double ConfigReader::number(Key key, double missing) {
  const json *entry = find(key);
  if (entry == nullptr) {
    return missing;
  }
  if (!entry->is_number() || !std::isfinite(entry->get<double>())) {
    problem(*key.begin(), fmt::format("'{}' must be a number, not {}", *key.begin(), shown(*entry)));
    return missing;
  }
  return entry->get<double>();
}

std::string ConfigReader::word(Key key, std::string_view missing) {
  const json *entry = find(key);
  if (entry == nullptr) {
    return std::string(missing);
  }
  if (!entry->is_string()) {
    problem(*key.begin(), fmt::format("'{}' must be a string, not {}", *key.begin(), shown(*entry)));
    return std::string(missing);
  }
  return entry->get<std::string>();
}

std::optional<std::vector<int64_t>> ConfigReader::counts(Key key) {
  const json *entry = find(key);
  if (entry == nullptr) {
    return std::nullopt;
  }
  std::vector<int64_t> result;
  bool good = entry->is_array();
  if (good) {
    for (const json &item : *entry) {
      good = good && item.is_number_unsigned() && item.get<uint64_t>() <= static_cast<uint64_t>(kMaxSize);
      result.push_back(good ? item.get<int64_t>() : 0);
    }
  }
  if (!good) {
    problem(*key.begin(),
            fmt::format("'{}' must be a list of whole numbers, not {}", *key.begin(), shown(*entry)));
    return std::nullopt;
  }
  return result;
}

std::optional<std::vector<std::string>> ConfigReader::words(Key key) {
  const json *entry = find(key);
  if (entry == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> result;
  bool good = entry->is_array();
  if (good) {
    for (const json &item : *entry) {
      good = good && item.is_string();
      result.push_back(good ? item.get<std::string>() : "");
    }
  }
  if (!good) {
    problem(*key.begin(), fmt::format("'{}' must be a list of strings, not {}", *key.begin(), shown(*entry)));
    return std::nullopt;
  }
  return result;
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) {
  read.insert(keys.begin(), keys.end());
}

void ConfigReader::refuseOthers(std::string_view what) {
  for (const auto &[key, value] : object.items()) {
    // null is how these files write "not there".
    if (!read.contains(key) && !value.is_null()) {
      problem(key, fmt::format("'{}' = {} is not understood in {}: it may change what is counted", key,
                               shown(value), what));
    }
  }
}

} // namespace smelt::hf
