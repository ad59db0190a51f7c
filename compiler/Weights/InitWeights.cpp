#include "compiler/Weights/InitWeights.h"

#include "compiler/Weights/ShardLayout.h"
#include "runtime/src/AtomicFile.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <mutex>
#include <thread>

namespace smelt::weights {

namespace {

using runtime::AtomicFile;
using runtime::Result;
using runtime::Status;
using Files = std::vector<AtomicFile>;

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

// The tensors of a spec. `distributions` gets one entry for each item they name.
Status listTensors(const spec::ModelSpec &spec, WeightDType dtype, std::vector<PlacedTensor> &tensors,
                   std::vector<Distribution> &distributions) {
  uint64_t total = 0;
  for (const spec::WeightDecl &decl : spec::weightTable(spec)) {
    uint64_t bytes = 0;
    uint64_t family = 0;
    if (!tensorBytes(decl.shape, elementBytes(dtype), bytes) ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(decl.tensors()), &family) ||
        __builtin_add_overflow(total, family, &total) || total > static_cast<uint64_t>(INT64_MAX)) {
      return runtime::fail(SMELT_spec,
                           fmt::format("the weights of '{}' do not fit in any file: the sizes of '{}' "
                                       "overflow 63 bits",
                                       spec.name, decl.name));
    }
    for (int64_t layer = 0; layer < std::max<int64_t>(decl.layers, 1); ++layer) {
      for (int64_t expert = 0; expert < std::max<int64_t>(decl.experts, 1); ++expert) {
        tensors.push_back({.name = decl.tensorName(decl.first_layer + layer, expert),
                           .dtype = dtype == WeightDType::f32 ? "F32" : "BF16",
                           .shape = decl.shape,
                           .bytes = bytes,
                           .item = distributions.size()});
      }
    }
    distributions.push_back(initialDistribution(decl));
  }
  return runtime::success();
}

// Large enough that the disk sees long sequential writes, small enough for the second-level cache of a core.
constexpr uint64_t chunk_bytes = 1 << 20;

// A run of at most chunk_bytes of one file's tensor data.
struct Chunk {
  size_t shard = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The part of a chunk that lies in one tensor.
void fillTensorPart(const InitOptions &options, const PlacedTensor &tensor, Distribution distribution,
                    uint64_t begin, uint64_t end, char *out) {
  uint64_t key = tensorKey(options.seed, tensor.name);
  if (options.dtype == WeightDType::f32) {
    fillF32(key, distribution, begin / 4, reinterpret_cast<float *>(out), (end - begin) / 4);
  } else {
    fillBf16(key, distribution, begin / 2, reinterpret_cast<uint16_t *>(out), (end - begin) / 2);
  }
}

void fillChunk(const InitOptions &options, const std::vector<Distribution> &distributions, const Shard &shard,
               const Chunk &chunk, char *out) {
  auto tensor = std::upper_bound(
      shard.tensors.begin(), shard.tensors.end(), chunk.begin,
      [](uint64_t position, const PlacedTensor &candidate) { return position < candidate.offset; });
  --tensor;
  for (uint64_t position = chunk.begin; position < chunk.end; ++tensor) {
    uint64_t end = std::min(chunk.end, tensor->offset + tensor->bytes);
    fillTensorPart(options, *tensor, distributions[tensor->item], position - tensor->offset,
                   end - tensor->offset, out + (position - chunk.begin));
    position = end;
  }
}

// Writes the tensor data of all files; threads claim chunks in file order.
class DataWriter {
public:
  DataWriter(const ShardLayout &layout, const std::vector<Distribution> &distributions, Files &files,
             const InitOptions &options)
      : layout(layout), distributions(distributions), files(files), options(options) {
    for (size_t shard = 0; shard < layout.shards.size(); ++shard) {
      uint64_t bytes = layout.shards[shard].data_bytes;
      for (uint64_t begin = 0; begin < bytes; begin += chunk_bytes) {
        chunks.push_back({shard, begin, std::min(bytes, begin + chunk_bytes)});
      }
      total += bytes;
    }
  }

  Status run() {
    unsigned threads = options.threads ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) {
      others.emplace_back([this] { work(/*reports=*/false); });
    }
    work(/*reports=*/true);
    for (std::thread &other : others) {
      other.join();
    }
    return first_failure;
  }

private:
  void work(bool reports) {
    std::vector<uint64_t> buffer(chunk_bytes / sizeof(uint64_t));
    char *bytes = reinterpret_cast<char *>(buffer.data());
    for (size_t i = next++; i < chunks.size() && !stop; i = next++) {
      if (options.cancelled && options.cancelled()) {
        fail(runtime::fail(SMELT_interrupted, "interrupted; nothing was written"));
        return;
      }
      const Chunk &chunk = chunks[i];
      const Shard &shard = layout.shards[chunk.shard];
      fillChunk(options, distributions, shard, chunk, bytes);
      std::span<const std::byte> filled = std::as_bytes(std::span(buffer)).first(chunk.end - chunk.begin);
      if (Status status = files[chunk.shard].writeAt(shard.header.size() + chunk.begin, filled);
          !status.ok()) {
        fail(std::move(status));
        return;
      }
      done += chunk.end - chunk.begin;
      if (reports && options.progress) {
        options.progress(done, total);
      }
    }
  }

  void fail(Status status) {
    std::lock_guard lock(mutex);
    if (first_failure.ok()) {
      first_failure = std::move(status);
    }
    stop = true;
  }

  const ShardLayout &layout;
  const std::vector<Distribution> &distributions;
  Files &files;
  const InitOptions &options;
  std::vector<Chunk> chunks;
  uint64_t total = 0;
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  Status first_failure;
};

InitResult summarise(const ShardLayout &layout, const InitOptions &options) {
  InitResult result;
  result.files = shardPaths(layout);
  result.bytes = layout.bytes();
  for (const Shard &shard : layout.shards) {
    result.tensors += shard.tensors.size();
    result.parameters += shard.data_bytes / elementBytes(options.dtype);
  }
  return result;
}

} // namespace

Result<InitResult> initWeights(const spec::ModelSpec &spec, const InitOptions &options) {
  std::vector<PlacedTensor> tensors;
  std::vector<Distribution> distributions;
  if (Status status = listTensors(spec, options.dtype, tensors, distributions); !status.ok()) {
    return status;
  }
  LayoutOptions placement{
      options.path,
      options.shard_bytes,
      {{"format", "pt"}, {"producer", "smeltc weights init"}, {"seed", std::to_string(options.seed)}}};
  ShardLayout layout;
  if (Status status = layOutShards(std::move(tensors), placement, layout); !status.ok()) {
    return status;
  }
  Result<Files> files = openShards(layout);
  if (!files.ok()) {
    return files.takeStatus();
  }
  if (Status status = DataWriter(layout, distributions, *files, options).run(); !status.ok()) {
    return status;
  }
  if (Status status = commitShards(*files); !status.ok()) {
    return status;
  }
  return summarise(layout, options);
}

} // namespace smelt::weights
