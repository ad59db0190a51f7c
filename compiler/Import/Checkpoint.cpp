#include "compiler/Import/Checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

namespace smelt::checkpoint {
namespace {

using nlohmann::json;

// Where an index says each tensor is.
using WeightMap = std::map<std::string, std::string>;

ReadResult<WeightMap> readIndex(const std::string &path) {
  std::ifstream stream(path);
  if (!stream) {
    return ReadError{SMELT_io, fmt::format("{}: cannot be read: {}", path, std::strerror(errno))};
  }
  json index = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  const bool has_map = index.is_object() && index.contains("weight_map") && index["weight_map"].is_object();
  if (!has_map) {
    return ReadError{SMELT_weights,
                     fmt::format("{}: is not an index of safetensors files: it has no weight_map", path)};
  }
  WeightMap map;
  for (const auto &[name, file] : index["weight_map"].items()) {
    // A file name, not a path: an index must not reach outside its folder.
    if (!file.is_string() ||
        std::filesystem::path(file.get<std::string>()).filename() != file.get<std::string>()) {
      return ReadError{SMELT_weights,
                       fmt::format("{}: '{}' needs the name of a file in the same folder", path, name)};
    }
    map[name] = file;
  }
  return map;
}

} // namespace

ReadResult<Checkpoint> Checkpoint::open(const std::string &path) {
  WeightMap expected;
  std::set<std::string> paths = {path};
  if (path.ends_with(".json")) {
    ReadResult<WeightMap> index = readIndex(path);
    if (auto *error = std::get_if<ReadError>(&index)) {
      return *error;
    }
    expected = std::move(std::get<WeightMap>(index));
    paths.clear();
    for (const auto &[name, file] : expected) {
      paths.insert(std::filesystem::path(path).replace_filename(file));
    }
  }

  Checkpoint checkpoint;
  std::vector<std::string> problems;
  for (const std::string &part : paths) {
    ReadResult<SafeTensorsFile> file = SafeTensorsFile::open(part);
    if (auto *error = std::get_if<ReadError>(&file)) {
      return *error;
    }
    checkpoint.parts.push_back(std::move(std::get<SafeTensorsFile>(file)));
    for (const auto &[name, view] : checkpoint.parts.back().tensors()) {
      if (!checkpoint.views.emplace(name, view).second) {
        problems.push_back(fmt::format("'{}' is in two files, the second being {}", name, part));
      }
    }
  }
  for (const auto &[name, file] : expected) {
    if (!checkpoint.views.count(name)) {
      problems.push_back(fmt::format("'{}' is not in {}, where the index says", name, file));
    }
  }
  if (!problems.empty()) {
    return ReadError{SMELT_weights, fmt::format("{}: {}", path, fmt::join(problems, "\n" + path + ": "))};
  }
  return checkpoint;
}

} // namespace smelt::checkpoint
