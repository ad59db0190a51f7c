#include "compiler/Spec/TableReader.h"

#include "compiler/Spec/Suggest.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::spec {

namespace {

// "segment[1].attention" of "segment[1].attention.head_dim"; "" of a top-level path.
std::string_view enclosing(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

} // namespace

Location FieldIndex::locate(std::string_view path) const {
  for (; !path.empty(); path = enclosing(path)) {
    if (auto found = locations.find(path); found != locations.end()) {
      return found->second;
    }
  }
  return {1, 1};
}

bool FieldIndex::isBad(std::string_view path) const {
  for (; !path.empty(); path = enclosing(path)) {
    if (bad.find(path) != bad.end()) {
      return true;
    }
  }
  return false;
}

TableReader::TableReader(const TomlTable &table, std::string label, std::string path, FieldIndex &index,
                         Diagnostics &diagnostics)
    : source(table), label(std::move(label)), path(std::move(path)), index(index), diagnostics(diagnostics) {}

std::string TableReader::fieldPath(std::string_view key) const {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

const TomlEntry *TableReader::entry(std::string_view key, Presence presence, std::string_view kind) {
  known.push_back(key);
  const TomlEntry *found = source.find(key);
  if (found) {
    index.locations[fieldPath(key)] = found->location;
  } else if (presence == Presence::required) {
    index.bad.insert(fieldPath(key));
    missing[key] = kind;
  }
  return found;
}

void TableReader::wrongKind(const TomlEntry &found, std::string_view kind) {
  index.bad.insert(fieldPath(found.key));
  diagnostics.add(found.value.location, fmt::format("'{}' in {} must be {}, not {}", found.key, label, kind,
                                                    found.value.describe()));
}

bool TableReader::read(std::string_view key, int64_t &out, Presence presence) {
  const TomlEntry *found = entry(key, presence, "an integer");
  if (!found) {
    return false;
  }
  if (const auto *integer = found->value.as<int64_t>()) {
    out = *integer;
    return true;
  }
  wrongKind(*found, "an integer");
  return false;
}

bool TableReader::read(std::string_view key, double &out, Presence presence) {
  const TomlEntry *found = entry(key, presence, "a number");
  if (!found) {
    return false;
  }
  if (const auto *real = found->value.as<double>()) {
    out = *real;
    return true;
  }
  if (const auto *integer = found->value.as<int64_t>()) {
    out = static_cast<double>(*integer);
    return true;
  }
  wrongKind(*found, "a number");
  return false;
}

bool TableReader::read(std::string_view key, bool &out, Presence presence) {
  const TomlEntry *found = entry(key, presence, "true or false");
  if (!found) {
    return false;
  }
  if (const auto *boolean = found->value.as<bool>()) {
    out = *boolean;
    return true;
  }
  wrongKind(*found, "true or false");
  return false;
}

bool TableReader::read(std::string_view key, std::string &out, Presence presence) {
  const TomlEntry *found = entry(key, presence, "a string");
  if (!found) {
    return false;
  }
  if (const auto *text = found->value.as<std::string>()) {
    out = *text;
    return true;
  }
  wrongKind(*found, "a string");
  return false;
}

std::optional<size_t> TableReader::wordIndex(std::string_view key, std::span<const std::string_view> words,
                                             Presence presence) {
  const std::string kind =
      words.size() == 1 ? listWords(words) + ", the only choice so far" : "one of " + listWords(words);
  const TomlEntry *found = entry(key, presence, kind);
  if (!found) {
    return std::nullopt;
  }
  const auto *text = found->value.as<std::string>();
  if (!text) {
    wrongKind(*found, kind);
    return std::nullopt;
  }
  const auto word = std::find(words.begin(), words.end(), *text);
  if (word == words.end()) {
    index.bad.insert(fieldPath(key));
    diagnostics.add(found->value.location, fmt::format("'{}' in {} is {}; it must be {}{}", key, label,
                                                       quoted(*text), kind, suggestion(*text, words)));
    return std::nullopt;
  }
  return static_cast<size_t>(word - words.begin());
}

const TomlTable *TableReader::table(std::string_view key) {
  const TomlEntry *found = entry(key, Presence::optional, "a table");
  if (!found) {
    return nullptr;
  }
  if (const auto *table = found->value.as<TomlTable>()) {
    return table;
  }
  wrongKind(*found, "a table");
  return nullptr;
}

void TableReader::finish(const std::map<std::string_view, std::string_view> &elsewhere) {
  for (const TomlEntry &found : source.entries) {
    if (std::find(known.begin(), known.end(), found.key) != known.end()) {
      continue;
    }
    std::string hint = suggestion(found.key, known);
    if (auto other = elsewhere.find(found.key); other != elsewhere.end()) {
      hint = fmt::format("; it belongs in {}", other->second);
    }
    if (std::string_view meant = nearestWord(found.key, known); !meant.empty()) {
      missing.erase(meant); // reported here: its absence is not a second problem
      index.bad.insert(fieldPath(meant));
    }
    std::string name = quoted(found.key);
    diagnostics.add(found.location,
                    fmt::format("unknown key '{}' in {}{}", name.substr(1, name.size() - 2), label, hint));
  }
  for (const auto &[key, kind] : missing) {
    diagnostics.add(index.locate(path), fmt::format("{} lacks the key '{}' ({})", label, key, kind));
  }
}

} // namespace smelt::spec
