#include "compiler/Weights/InitWeights.h"

#include "compiler/Weights/OutputFile.h"
#include "compiler/Weights/ShardLayout.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace smelt::weights {

namespace {

// Large enough that the disk sees long sequential writes, small enough for the second-level cache of a core.
constexpr uint64_t chunk_bytes = 1 << 20;

// A run of at most chunk_bytes of one file's tensor data.
struct Chunk {
  size_t shard = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The part of a chunk that lies in one tensor.
void fillTensorPart(uint64_t seed, WeightDType dtype, const PlacedTensor &tensor, uint64_t begin,
                    uint64_t end, char *out) {
  uint64_t key = tensorKey(seed, tensor.name);
  if (dtype == WeightDType::f32) {
    fillF32(key, tensor.distribution, begin / 4, reinterpret_cast<float *>(out), (end - begin) / 4);
  } else {
    fillBf16(key, tensor.distribution, begin / 2, reinterpret_cast<uint16_t *>(out), (end - begin) / 2);
  }
}

void fillChunk(const InitOptions &options, const Shard &shard, const Chunk &chunk, char *out) {
  auto tensor = std::upper_bound(
      shard.tensors.begin(), shard.tensors.end(), chunk.begin,
      [](uint64_t position, const PlacedTensor &candidate) { return position < candidate.offset; });
  --tensor;
  for (uint64_t position = chunk.begin; position < chunk.end; ++tensor) {
    uint64_t end = std::min(chunk.end, tensor->offset + tensor->bytes);
    fillTensorPart(options.seed, options.dtype, *tensor, position - tensor->offset, end - tensor->offset,
                   out + (position - chunk.begin));
    position = end;
  }
}

// Writes the tensor data of all files; threads claim chunks in file order.
class DataWriter {
public:
  DataWriter(const ShardLayout &layout, std::vector<OutputFile> &files, const InitOptions &options)
      : layout(layout), files(files), options(options) {
    for (size_t shard = 0; shard < layout.shards.size(); ++shard) {
      uint64_t bytes = layout.shards[shard].data_bytes;
      for (uint64_t begin = 0; begin < bytes; begin += chunk_bytes) {
        chunks.push_back({shard, begin, std::min(bytes, begin + chunk_bytes)});
      }
      total += bytes;
    }
  }

  MaybeFailure run() {
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
        fail({SMELT_interrupted, "interrupted; nothing was written"});
        return;
      }
      const Chunk &chunk = chunks[i];
      const Shard &shard = layout.shards[chunk.shard];
      fillChunk(options, shard, chunk, bytes);
      if (MaybeFailure failure =
              files[chunk.shard].writeAt(shard.header.size() + chunk.begin, bytes, chunk.end - chunk.begin)) {
        fail(std::move(*failure));
        return;
      }
      done += chunk.end - chunk.begin;
      if (reports && options.progress) {
        options.progress(done, total);
      }
    }
  }

  void fail(Failure failure) {
    std::lock_guard lock(mutex);
    if (!first_failure) {
      first_failure = std::move(failure);
    }
    stop = true;
  }

  const ShardLayout &layout;
  std::vector<OutputFile> &files;
  const InitOptions &options;
  std::vector<Chunk> chunks;
  uint64_t total = 0;
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  MaybeFailure first_failure;
};

// Opens every file and claims its space before any value is computed.
MaybeFailure openFiles(const ShardLayout &layout, std::vector<OutputFile> &files) {
  for (const Shard &shard : layout.shards) {
    files.emplace_back(shard.path);
    if (MaybeFailure failure = files.back().open()) {
      return failure;
    }
  }
  if (!layout.index_path.empty()) {
    files.emplace_back(layout.index_path);
    if (MaybeFailure failure = files.back().open()) {
      return failure;
    }
  }
  for (size_t i = 0; i < layout.shards.size(); ++i) {
    const Shard &shard = layout.shards[i];
    if (MaybeFailure failure = files[i].reserve(shard.fileBytes())) {
      return failure;
    }
    if (MaybeFailure failure = files[i].writeAt(0, shard.header.data(), shard.header.size())) {
      return failure;
    }
  }
  if (!layout.index_path.empty()) {
    return files.back().writeAt(0, layout.index_json.data(), layout.index_json.size());
  }
  return std::nullopt;
}

InitResult summarise(const ShardLayout &layout, const InitOptions &options) {
  InitResult result;
  if (!layout.index_path.empty()) {
    result.files.push_back(layout.index_path);
    result.bytes += layout.index_json.size();
  }
  for (const Shard &shard : layout.shards) {
    result.files.push_back(shard.path);
    result.tensors += shard.tensors.size();
    result.parameters += shard.data_bytes / (options.dtype == WeightDType::f32 ? 4 : 2);
    result.bytes += shard.fileBytes();
  }
  return result;
}

} // namespace

MaybeFailure initWeights(const spec::ModelSpec &spec, const InitOptions &options, InitResult &result) {
  ShardLayout layout;
  if (MaybeFailure failure = layOutShards(spec, options, layout)) {
    return failure;
  }
  InitResult summary = summarise(layout, options);
  if (MaybeFailure failure = checkFreeSpace(options.path, summary.bytes)) {
    return failure;
  }
  std::vector<OutputFile> files;
  files.reserve(layout.shards.size() + 1);
  if (MaybeFailure failure = openFiles(layout, files)) {
    return failure;
  }
  if (MaybeFailure failure = DataWriter(layout, files, options).run()) {
    return failure;
  }
  // The index comes last: a reader that finds it finds every file it names.
  for (OutputFile &file : files) {
    if (MaybeFailure failure = file.commit()) {
      return failure;
    }
  }
  result = std::move(summary);
  return std::nullopt;
}

} // namespace smelt::weights
