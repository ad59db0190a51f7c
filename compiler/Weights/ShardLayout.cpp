#include "compiler/Weights/ShardLayout.h"

#include "runtime/src/Text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/statvfs.h>

namespace smelt::weights {

namespace {

using runtime::AtomicFile;
using runtime::formatBytes;
using runtime::Status;

constexpr uint64_t alignment = 64;
// Readers of the format refuse longer headers.
constexpr uint64_t max_header_bytes = 100'000'000;
constexpr const char *extension = ".safetensors";

// Cuts the list, in order, into runs of at most `shard_bytes`; a tensor larger than that gets a file alone.
std::vector<Shard> cutIntoShards(std::vector<PlacedTensor> tensors, uint64_t shard_bytes) {
  std::vector<Shard> shards(1);
  for (PlacedTensor &tensor : tensors) {
    bool full = shard_bytes != 0 && shards.back().data_bytes + tensor.bytes > shard_bytes;
    if (full && !shards.back().tensors.empty()) {
      shards.emplace_back();
    }
    shards.back().data_bytes += tensor.bytes;
    shards.back().tensors.push_back(std::move(tensor));
  }
  return shards;
}

void placeTensors(Shard &shard) {
  std::array<std::vector<PlacedTensor>, std::countr_zero(alignment) + 1> by_alignment;
  for (PlacedTensor &tensor : shard.tensors) {
    // countr_zero: the power of two that divides the size.
    size_t power = std::min<size_t>(std::countr_zero(tensor.bytes), by_alignment.size() - 1);
    by_alignment[power].push_back(std::move(tensor));
  }
  shard.tensors.clear();
  uint64_t offset = 0;
  for (size_t power = by_alignment.size(); power-- > 0;) {
    for (PlacedTensor &tensor : by_alignment[power]) {
      tensor.offset = offset;
      offset += tensor.bytes;
      shard.tensors.push_back(std::move(tensor));
    }
  }
}

// Eight bytes of length, little-endian, then JSON padded with spaces so that the data starts aligned.
std::string buildHeader(const Shard &shard, const LayoutOptions &options) {
  nlohmann::json json;
  json["__metadata__"] = options.metadata;
  for (const PlacedTensor &tensor : shard.tensors) {
    json[tensor.name] = {{"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes}}};
  }
  std::string text = json.dump();
  uint64_t unpadded = sizeof(uint64_t) + text.size();
  text.append((unpadded + alignment - 1) / alignment * alignment - unpadded, ' ');
  uint64_t length = text.size();
  static_assert(std::endian::native == std::endian::little,
                "the length prefix and the values are little-endian");
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + text;
}

std::string stemOf(const std::string &path) {
  size_t length = std::strlen(extension);
  bool has_extension = path.size() > length && path.compare(path.size() - length, length, extension) == 0;
  return has_extension ? path.substr(0, path.size() - length) : path;
}

std::string fileName(const std::string &path) { return path.substr(path.rfind('/') + 1); }

void nameShards(ShardLayout &layout, const LayoutOptions &options) {
  if (layout.shards.size() == 1) {
    layout.shards.front().path = options.path;
    return;
  }
  std::string stem = stemOf(options.path);
  nlohmann::json weight_map;
  uint64_t total = 0;
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    Shard &shard = layout.shards[i];
    shard.path = fmt::format("{}-{:05}-of-{:05}{}", stem, i + 1, layout.shards.size(), extension);
    total += shard.data_bytes;
    for (const PlacedTensor &tensor : shard.tensors) {
      weight_map[tensor.name] = fileName(shard.path);
    }
  }
  nlohmann::json index;
  index["metadata"] = {{"total_size", total}};
  index["weight_map"] = std::move(weight_map);
  layout.index_path = stem + extension + ".index.json";
  layout.index_json = index.dump(2) + "\n";
}

} // namespace

uint64_t ShardLayout::bytes() const {
  uint64_t total = index_json.size();
  for (const Shard &shard : shards) {
    total += shard.fileBytes();
  }
  return total;
}

Status layOutShards(std::vector<PlacedTensor> tensors, const LayoutOptions &options, ShardLayout &layout) {
  layout.shards = cutIntoShards(std::move(tensors), options.shard_bytes);
  nameShards(layout, options);
  for (Shard &shard : layout.shards) {
    placeTensors(shard);
    shard.header = buildHeader(shard, options);
    if (shard.header.size() > max_header_bytes) {
      return runtime::fail(
          SMELT_unsupported,
          fmt::format("'{}' would hold {} tensors, whose names need a header of {}, and readers refuse "
                      "more than {}; ask for smaller files with --shard-size",
                      shard.path, shard.tensors.size(), formatBytes(shard.header.size()),
                      formatBytes(max_header_bytes)));
    }
  }
  return runtime::success();
}

namespace {

std::span<const std::byte> asBytes(const std::string &text) { return std::as_bytes(std::span(text)); }

} // namespace

Status checkFreeSpace(const std::string &path, uint64_t bytes) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  folder = folder.empty() ? "." : folder;
  struct statvfs space;
  if (::statvfs(folder.c_str(), &space) != 0) {
    return runtime::fail(SMELT_io, fmt::format("{}: cannot be created: {}", path, runtime::errnoText(errno)));
  }
  uint64_t available = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  if (available < bytes) {
    return runtime::fail(SMELT_io, fmt::format("{}: cannot be written: it needs {}, but '{}' has {} free",
                                               path, formatBytes(bytes), folder, formatBytes(available)));
  }
  return runtime::success();
}

runtime::Result<std::vector<AtomicFile>> openShards(const ShardLayout &layout) {
  const std::string &first = layout.index_path.empty() ? layout.shards.front().path : layout.index_path;
  if (Status status = checkFreeSpace(first, layout.bytes()); !status.ok()) {
    return status;
  }
  std::vector<std::string> paths;
  for (const Shard &shard : layout.shards) {
    paths.push_back(shard.path);
  }
  if (!layout.index_path.empty()) {
    paths.push_back(layout.index_path);
  }
  std::vector<AtomicFile> files;
  for (const std::string &path : paths) {
    runtime::Result<AtomicFile> file = AtomicFile::create(path);
    if (!file.ok()) {
      return file.takeStatus();
    }
    files.push_back(std::move(*file));
  }
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    if (Status status = files[i].reserve(layout.shards[i].fileBytes()); !status.ok()) {
      return status;
    }
    if (Status status = files[i].writeAt(0, asBytes(layout.shards[i].header)); !status.ok()) {
      return status;
    }
  }
  if (!layout.index_path.empty()) {
    if (Status status = files.back().writeAt(0, asBytes(layout.index_json)); !status.ok()) {
      return status;
    }
  }
  return files;
}

Status commitShards(std::vector<AtomicFile> &files) {
  for (AtomicFile &file : files) {
    if (Status status = file.commitUnflushed(); !status.ok()) {
      return status;
    }
  }
  return runtime::success();
}

std::vector<std::string> shardPaths(const ShardLayout &layout) {
  std::vector<std::string> paths;
  if (!layout.index_path.empty()) {
    paths.push_back(layout.index_path);
  }
  for (const Shard &shard : layout.shards) {
    paths.push_back(shard.path);
  }
  return paths;
}

} // namespace smelt::weights
