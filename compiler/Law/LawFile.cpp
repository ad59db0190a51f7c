#include "compiler/Law/LawFile.h"

#include "compiler/Spec/Suggest.h"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::law {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct RangeKey {
  const char *key;
  std::optional<Range> Validity::*member;
  double scale; // from the value in memory to the one in the file: 100 for per cent
};

constexpr RangeKey range_keys[] = {
    {"training_flops", &Validity::training_flops, 1},
    {"sparsity_percent", &Validity::sparsity, 100},
    {"training_flops_per_token", &Validity::training_flops_per_token, 1},
    {"tokens", &Validity::tokens, 1},
};

constexpr std::array<std::string_view, 7> law_keys = {"name",         "description",    "source", "data",
                                                      "coefficients", "flops_per_size", "range"};

class LawReader {
public:
  LawResult read(std::string_view text) {
    json root;
    try {
      root = json::parse(text);
    } catch (const json::parse_error &error) {
      problem(fmt::format("is not JSON: {}", describe(text, error.byte)));
      return std::move(result);
    }
    if (!root.is_object()) {
      problem("is not a JSON object");
      return std::move(result);
    }
    ScalingLaw law;
    checkKeys(root, "", law_keys);
    readString(root, "name", law.name);
    readString(root, "description", law.description);
    readString(root, "source", law.source);
    readString(root, "data", law.data);
    if (root.contains("flops_per_size")) {
      readNumber(root["flops_per_size"], "flops_per_size", law.flops_per_size);
      requirePositive("flops_per_size", law.flops_per_size);
    }
    readCoefficients(root, law.coefficients);
    if (root.contains("range")) {
      readRanges(root["range"], law.validity);
    }
    if (result.problems.empty()) {
      result.law = std::move(law);
    }
    return std::move(result);
  }

private:
  void problem(std::string text) { result.problems.push_back(std::move(text)); }

  static std::string describe(std::string_view text, size_t byte) {
    size_t line = 1;
    for (char c : text.substr(0, byte > 0 ? byte - 1 : 0)) {
      line += c == '\n' ? 1 : 0;
    }
    return fmt::format("syntax error in line {}", line);
  }

  template <size_t size>
  void checkKeys(const json &object, const std::string &prefix,
                 const std::array<std::string_view, size> &known) {
    for (const auto &[key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        problem(fmt::format("unknown key '{}{}'{}", prefix, key, spec::suggestion(key, known)));
      }
    }
  }

  void readString(const json &object, const char *key, std::string &value) {
    if (!object.contains(key)) {
      return;
    }
    if (object[key].is_string()) {
      value = object[key];
    } else {
      problem(fmt::format("'{}' is not a string", key));
    }
  }

  void readNumber(const json &value, const std::string &key, double &number) {
    if (value.is_number() && std::isfinite(value.get<double>())) {
      number = value;
    } else {
      problem(fmt::format("'{}' is not a number", key));
      number = 1;
    }
  }

  void requirePositive(const std::string &key, double number) {
    if (!(number > 0)) {
      problem(fmt::format("'{}' must be more than 0, not {:g}", key, number));
    }
  }

  void readCoefficients(const json &root, Coefficients &coefficients) {
    if (!root.contains("coefficients") || !root["coefficients"].is_object()) {
      problem("'coefficients' is missing; expected an object with E, A, K, a, b and c");
      return;
    }
    const json &object = root["coefficients"];
    std::array<std::string_view, std::size(coefficient_names)> known;
    for (size_t i = 0; i < known.size(); ++i) {
      known[i] = coefficient_names[i].letter;
    }
    checkKeys(object, "coefficients.", known);
    for (const CoefficientName &name : coefficient_names) {
      std::string key = fmt::format("coefficients.{}", name.letter);
      if (!object.contains(name.letter)) {
        problem(fmt::format("'{}' is missing", key));
        continue;
      }
      readNumber(object[name.letter], key, coefficients.*name.member);
      if (name.member != &Coefficients::sparsity_exponent) {
        requirePositive(key, coefficients.*name.member);
      }
    }
  }

  void readRanges(const json &object, Validity &validity) {
    if (!object.is_object()) {
      problem("'range' is not an object");
      return;
    }
    std::array<std::string_view, std::size(range_keys)> known;
    for (size_t i = 0; i < known.size(); ++i) {
      known[i] = range_keys[i].key;
    }
    checkKeys(object, "range.", known);
    for (const RangeKey &range : range_keys) {
      if (object.contains(range.key)) {
        validity.*range.member =
            readRange(object[range.key], fmt::format("range.{}", range.key), range.scale);
      }
    }
  }

  Range readRange(const json &value, const std::string &key, double scale) {
    if (!value.is_array() || value.size() != 2) {
      problem(fmt::format("'{}' is not a pair [low, high]", key));
      return {};
    }
    Range range;
    readNumber(value[0], key, range.low);
    readNumber(value[1], key, range.high);
    if (range.low > range.high) {
      problem(fmt::format("'{}' goes from {:g} down to {:g}", key, range.low, range.high));
    }
    return {range.low / scale, range.high / scale};
  }

  LawResult result;
};

} // namespace

std::string writeLaw(const ScalingLaw &law) {
  ordered_json root;
  root["name"] = law.name;
  for (auto [key, text] :
       {std::pair{"description", &law.description}, {"source", &law.source}, {"data", &law.data}}) {
    if (!text->empty()) {
      root[key] = *text;
    }
  }
  for (const CoefficientName &name : coefficient_names) {
    root["coefficients"][name.letter] = law.coefficients.*name.member;
  }
  root["flops_per_size"] = law.flops_per_size;
  for (const RangeKey &range : range_keys) {
    if (const std::optional<Range> &value = law.validity.*range.member) {
      auto in_file = [&](double number) { return range.scale == 100 ? inPercent(number) : number; };
      root["range"][range.key] = {in_file(value->low), in_file(value->high)};
    }
  }
  return root.dump(2) + "\n";
}

LawResult readLaw(std::string_view text) { return LawReader().read(text); }

} // namespace smelt::law
