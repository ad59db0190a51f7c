// Reads the typed fields of one TOML table, reporting every problem and remembering where each field stands.
#pragma once

#include "compiler/Spec/SpecNames.h"
#include "compiler/Spec/TomlText.h"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::spec {

// What the reader knows of fields, by path ("moe.top_k", "segment[1].visits"), for checks that follow
// reading.
struct FieldIndex {
  std::map<std::string, Location, std::less<>> locations;
  std::set<std::string, std::less<>> bad; // already reported: no value to check

  // Of the field, or of the nearest enclosing table that the text has.
  Location locate(std::string_view path) const;
  // Whether the field or a table around it is bad.
  bool isBad(std::string_view path) const;
};

enum class Presence { required, optional };

class TableReader {
public:
  // label is how messages name the table, e.g. "[moe]"; path is its prefix in the index.
  TableReader(const TomlTable &table, std::string label, std::string path, FieldIndex &index,
              Diagnostics &diagnostics);

  // Each leaves `out` as it is when the key is absent and says whether a value was read.
  bool read(std::string_view key, int64_t &out, Presence presence);
  bool read(std::string_view key, double &out, Presence presence);
  bool read(std::string_view key, bool &out, Presence presence);
  bool read(std::string_view key, std::string &out, Presence presence);

  template <typename Enum> bool readWord(std::string_view key, Enum &out, Presence presence) {
    const auto index = wordIndex(key, EnumNames<Enum>::names, presence);
    if (index) {
      out = static_cast<Enum>(*index);
    }
    return index.has_value();
  }

  // A key that holds a table; a value of another kind is reported.
  const TomlTable *table(std::string_view key);

  // Reports the keys that nobody asked for and the required ones that are not there. `elsewhere` maps keys of
  // other tables to those tables' labels.
  void finish(const std::map<std::string_view, std::string_view> &elsewhere);

private:
  const TomlEntry *entry(std::string_view key, Presence presence, std::string_view kind);
  void wrongKind(const TomlEntry &found, std::string_view kind);
  std::optional<size_t> wordIndex(std::string_view key, std::span<const std::string_view> words,
                                  Presence presence);
  std::string fieldPath(std::string_view key) const;

  const TomlTable &source;
  std::string label;
  std::string path;
  FieldIndex &index;
  Diagnostics &diagnostics;
  std::vector<std::string_view> known;
  std::map<std::string_view, std::string> missing; // required key to what it takes
};

} // namespace smelt::spec
