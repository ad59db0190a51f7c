#include "compiler/Driver/Inspect.h"

#include "compiler/Driver/UserError.h"
#include "compiler/Report/Table.h"
#include "runtime/src/Text.h"
#include "runtime/src/WeightFiles.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace smelt::driver {

namespace {

using nlohmann::ordered_json;
using report::Table;

// Tensors whose names differ in layer and expert alone, and that have one dtype and shape.
struct Family {
  std::string pattern; // "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight"
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

bool isNumber(const std::string &text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The numbers after "layers" and "experts" become placeholders.
std::string patternOf(std::string_view name) {
  std::string pattern, previous;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('.', begin), name.size());
    std::string part(name.substr(begin, end - begin));
    std::string shown = part;
    if (isNumber(part) && (previous == "layers" || previous == "experts")) {
      shown = previous == "layers" ? "{layer}" : "{expert}";
    }
    pattern += (begin == 0 ? "" : ".") + shown;
    previous = part;
    begin = end + 1;
  }
  return pattern;
}

// In the order in which their first tensors lie in the files.
std::vector<Family> familiesOf(const std::vector<runtime::WeightFile> &files) {
  std::vector<Family> families;
  std::map<std::tuple<std::string, std::string, std::vector<uint64_t>>, size_t> known;
  for (const runtime::WeightFile &file : files) {
    for (const runtime::TensorEntry &tensor : file.header.tensors) {
      std::string pattern = patternOf(tensor.name);
      std::string dtype(tensor.dtype);
      std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
      auto [entry, added] = known.try_emplace({pattern, dtype, shape}, families.size());
      if (added) {
        families.push_back({pattern, dtype, shape, 0, 0});
      }
      Family &family = families[entry->second];
      ++family.tensors;
      family.bytes += tensor.end - tensor.begin;
    }
  }
  return families;
}

struct Totals {
  uint64_t tensors = 0, parameters = 0, bytes = 0;
};

Totals totalsOf(const std::vector<Family> &families) {
  Totals totals;
  for (const Family &family : families) {
    totals.tensors += family.tensors;
    totals.bytes += family.bytes;
    uint64_t element = runtime::safeTensorsElementSize(family.dtype);
    totals.parameters += element ? family.bytes / element : 0;
  }
  return totals;
}

std::string textOf(const std::string &path, const std::vector<runtime::WeightFile> &files) {
  std::vector<Family> families = familiesOf(files);
  Totals totals = totalsOf(families);
  std::string text = fmt::format(
      "safetensors {}, {} file{}\n{} parameters in {} tensors, {} when mapped\n", path, files.size(),
      files.size() == 1 ? "" : "s", report::groupDigits(static_cast<int64_t>(totals.parameters)),
      report::groupDigits(static_cast<int64_t>(totals.tensors)), runtime::formatBytes(totals.bytes));
  for (const auto &[key, value] : files.front().header.metadata) {
    text += fmt::format("{}: {}\n", runtime::printable(key), runtime::printable(value));
  }
  Table table;
  table.addRow({"weights", "type", "shape", "tensors", "size"});
  for (const Family &family : families) {
    table.addRow({runtime::printable(family.pattern), runtime::printable(family.dtype),
                  runtime::formatShape(family.shape), std::to_string(family.tensors),
                  runtime::formatBytes(family.bytes)});
  }
  return text + "\n" + table.text();
}

std::string jsonOf(const std::vector<runtime::WeightFile> &files) {
  std::vector<Family> families = familiesOf(files);
  Totals totals = totalsOf(families);
  ordered_json json;
  json["kind"] = "safetensors";
  for (const runtime::WeightFile &file : files) {
    json["files"].push_back(file.file.path());
  }
  json["metadata"] = files.front().header.metadata;
  json["tensors"] = totals.tensors;
  json["parameters"] = totals.parameters;
  json["bytes"] = totals.bytes;
  json["weights"] = ordered_json::array();
  for (const Family &family : families) {
    json["weights"].push_back({{"name", family.pattern},
                               {"dtype", family.dtype},
                               {"shape", family.shape},
                               {"tensors", family.tensors},
                               {"bytes", family.bytes}});
  }
  // Names come from the file and need not be UTF-8.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

} // namespace

std::string inspectSafetensors(const std::string &path, bool json) {
  std::vector<std::string> paths = {path};
  runtime::Result<std::vector<runtime::WeightFile>> files = runtime::openWeightFiles(paths);
  if (!files.ok()) {
    throw UserError(files.status().code, files.status().message);
  }
  return json ? jsonOf(*files) : textOf(path, *files);
}

} // namespace smelt::driver
