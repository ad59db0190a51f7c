// Typed access to the keys of one JSON object that keeps count of which were read: a key that nobody reads
// might change what is counted, so it is refused by name.
#pragma once

#include "compiler/Spec/Diagnostics.h"

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::hf {

// Spellings of one key, the usual one first. Files that have two that disagree are refused.
using Key = std::initializer_list<std::string_view>;

class ConfigReader {
public:
  // Largest size of anything, so that products of a few fit CheckedInt or are caught by it.
  static constexpr int64_t kMaxSize = INT32_MAX;
  static constexpr int64_t kMaxLayers = 1 << 14;

  // `object` must be an object and outlive the reader; `text` is the file, searched from `start` for the
  // places of keys.
  ConfigReader(const nlohmann::json &object, std::string_view text, size_t start, spec::Diagnostics &problems)
      : object(object), text(text), start(start), problems(problems) {}

  // Whether the key is there and not null; counts as reading it.
  bool has(Key key);
  // A positive whole number. A missing one is a problem, and 1, unless there is a default.
  int64_t size(Key key);
  int64_t size(Key key, int64_t missing);
  // The same, or 0.
  int64_t count(Key key, int64_t missing);
  // The same, at most `most`.
  int64_t sizeUpTo(Key key, int64_t most);
  std::optional<int64_t> optionalSize(Key key);
  // Whether the key is there at all, null too; counts as reading it.
  bool given(std::string_view key);
  bool flag(Key key, bool missing);
  double number(Key key, double missing);
  std::string word(Key key, std::string_view missing);
  // Nothing when missing or null.
  std::optional<std::vector<int64_t>> counts(Key key);
  std::optional<std::vector<std::string>> words(Key key);
  // The value, or null when missing.
  const nlohmann::json *value(Key key);

  // Keys that change neither counts nor what a spec says.
  void ignore(std::initializer_list<std::string_view> keys);
  void problem(std::string_view key, std::string message);
  // Names every key that was not read; `what` says what they were not understood in.
  void refuseOthers(std::string_view what);
  spec::Diagnostics &diagnostics() { return problems; }
  // A reader of an object within this one, which must outlive it.
  ConfigReader within(const nlohmann::json &inner) const { return {inner, text, start, problems}; }

private:
  const nlohmann::json *find(Key key);
  std::optional<int64_t> whole(Key key, int64_t least, int64_t most);

  const nlohmann::json &object;
  std::string_view text;
  size_t start;
  spec::Diagnostics &problems;
  std::set<std::string, std::less<>> read;
};

// Where `"key":` first stands in text from `start` on; a location of line 0 when it does not.
spec::Location locateKey(std::string_view text, size_t start, std::string_view key);

} // namespace smelt::hf
