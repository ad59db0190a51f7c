#include "runtime/src/WeightFiles.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>

namespace smelt::runtime {
namespace {

namespace fs = std::filesystem;
using WeightMap = std::map<std::string, std::string>; // tensor name -> shard file name

constexpr uint64_t maxIndexSize = 100'000'000;

Result<WeightMap> readIndex(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) {
    return file.takeStatus();
  }
  auto refuse = [&](const std::string &what) {
    return fail(SMELT_weights, fmt::format("{}: is not a safetensors index: {}", path, what));
  };
  if (file->bytes().size() > maxIndexSize) {
    return refuse(fmt::format("it has {} bytes, {} are allowed", file->bytes().size(), maxIndexSize));
  }
  const char *begin = reinterpret_cast<const char *>(file->bytes().data());
  nlohmann::json json = nlohmann::json::parse(begin, begin + file->bytes().size(), nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("weight_map") ||
      !json["weight_map"].is_object()) {
    return refuse("it should be a JSON object with a weight_map of tensor names to file names");
  }
  WeightMap map;
  for (const auto &[name, shard] : json["weight_map"].items()) {
    const std::string *text = shard.get_ptr<const std::string *>();
    if (!text || text->empty() || text->find('/') != text->npos || *text == "." || *text == "..") {
      return refuse(fmt::format("tensor '{}' should name a file in the same folder", printable(name)));
    }
    map[name] = *text;
  }
  return map;
}

class Opener {
public:
  void add(const std::string &path) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      std::string index = fs::path(path) / "model.safetensors.index.json";
      std::string single = fs::path(path) / "model.safetensors";
      return add(fs::exists(index, ignored) ? index : single);
    }
    if (path.ends_with(".json")) {
      return addIndex(path);
    }
    addFile(path);
  }

  Result<std::vector<WeightFile>> take() {
    if (problem.ok()) {
      return std::move(files);
    }
    return std::move(problem);
  }

private:
  void report(Status status) {
    if (problem.ok()) {
      problem = std::move(status);
    } else {
      problem.message += "\n" + status.message;
    }
  }

  // Index into `files`, or -1 when it cannot be used.
  int addFile(const std::string &path) {
    Result<MappedFile> file = MappedFile::open(path);
    if (!file.ok()) {
      report(file.takeStatus());
      return -1;
    }
    for (size_t i = 0; i < files.size(); ++i) {
      if (files[i].file.identity() == file->identity()) {
        return int(i);
      }
    }
    Result<SafeTensorsHeader> header = parseSafeTensors(path, file->bytes());
    if (!header.ok()) {
      report(header.takeStatus());
      return -1;
    }
    files.push_back({std::move(*file), std::move(*header)});
    return int(files.size() - 1);
  }

  void addIndex(const std::string &path) {
    Result<WeightMap> map = readIndex(path);
    if (!map.ok()) {
      return report(map.takeStatus());
    }
    std::map<std::string, std::set<std::string, std::less<>>> byShard;
    for (const auto &[name, shard] : *map) {
      byShard[shard].insert(name);
    }
    ProblemList problems;
    for (const auto &[shard, names] : byShard) {
      int index = addFile(fs::path(path).parent_path() / shard);
      if (index < 0) {
        continue;
      }
      const SafeTensorsHeader &header = files[size_t(index)].header;
      for (const TensorEntry &entry : header.tensors) {
        if (!names.contains(entry.name)) {
          problems.add(
              fmt::format("'{}' is in {}, which the index does not say", printable(entry.name), shard));
        }
      }
      for (const std::string &name : names) {
        if (!header.names.contains(name)) {
          problems.add(fmt::format("'{}' should be in {}, but is not", printable(name), shard));
        }
      }
    }
    if (!problems.empty()) {
      report(fail(SMELT_weights, fmt::format("{}: contradicts its files:{}", path, problems.text())));
    }
  }

  std::vector<WeightFile> files;
  Status problem;
};

} // namespace

Result<std::vector<WeightFile>> openWeightFiles(std::span<const std::string> paths) {
  Opener opener;
  for (const std::string &path : paths) {
    opener.add(path);
  }
  return opener.take();
}

} // namespace smelt::runtime
