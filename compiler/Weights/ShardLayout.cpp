#include "compiler/Weights/ShardLayout.h"

#include "runtime/src/Text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace smelt::weights {

namespace {

using runtime::formatBytes;
using runtime::Status;

constexpr uint64_t alignment = 64;
// Readers of the format refuse longer headers.
constexpr uint64_t max_header_bytes = 100'000'000;
constexpr const char *extension = ".safetensors";

uint64_t elementBytes(WeightDType dtype) { return dtype == WeightDType::f32 ? 4 : 2; }

// Bytes of one tensor; false when they do not fit 63 bits.
bool tensorBytes(const std::vector<int64_t> &shape, uint64_t element_bytes, uint64_t &bytes) {
  int64_t product = static_cast<int64_t>(element_bytes);
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      return false;
    }
  }
  bytes = static_cast<uint64_t>(product);
  return true;
}

Status listTensors(const spec::ModelSpec &spec, uint64_t element_bytes, std::vector<PlacedTensor> &tensors) {
  uint64_t total = 0;
  for (const spec::WeightDecl &decl : spec::weightTable(spec)) {
    uint64_t bytes = 0;
    uint64_t family = 0;
    if (!tensorBytes(decl.shape, element_bytes, bytes) ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(decl.tensors()), &family) ||
        __builtin_add_overflow(total, family, &total) || total > static_cast<uint64_t>(INT64_MAX)) {
      return runtime::fail(SMELT_spec,
                           fmt::format("the weights of '{}' do not fit in any file: the sizes of '{}' "
                                       "overflow 63 bits",
                                       spec.name, decl.name));
    }
    Distribution distribution = initialDistribution(decl);
    for (int64_t layer = 0; layer < std::max<int64_t>(decl.layers, 1); ++layer) {
      for (int64_t expert = 0; expert < std::max<int64_t>(decl.experts, 1); ++expert) {
        tensors.push_back(
            {decl.tensorName(decl.first_layer + layer, expert), decl.shape, distribution, bytes, 0});
      }
    }
  }
  return runtime::success();
}

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
std::string buildHeader(const Shard &shard, const InitOptions &options) {
  nlohmann::json json;
  json["__metadata__"] = {
      {"format", "pt"}, {"producer", "smeltc weights init"}, {"seed", std::to_string(options.seed)}};
  const char *dtype = options.dtype == WeightDType::f32 ? "F32" : "BF16";
  for (const PlacedTensor &tensor : shard.tensors) {
    json[tensor.name] = {{"dtype", dtype},
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

void nameShards(ShardLayout &layout, const InitOptions &options) {
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

Status layOutShards(const spec::ModelSpec &spec, const InitOptions &options, ShardLayout &layout) {
  std::vector<PlacedTensor> tensors;
  if (Status status = listTensors(spec, elementBytes(options.dtype), tensors); !status.ok()) {
    return status;
  }
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

} // namespace smelt::weights
