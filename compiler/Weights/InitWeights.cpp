#include "compiler/Weights/InitWeights.h"

#include "compiler/Weights/ShardLayout.h"
#include "runtime/src/AtomicFile.h"
#include "runtime/src/Text.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <thread>

#include <sys/statvfs.h>

namespace smelt::weights {

namespace {

using runtime::AtomicFile;
using runtime::Result;
using runtime::Status;
using Files = std::vector<AtomicFile>;

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
  DataWriter(const ShardLayout &layout, Files &files, const InitOptions &options)
      : layout(layout), files(files), options(options) {
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
      fillChunk(options, shard, chunk, bytes);
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

std::span<const std::byte> asBytes(const std::string &text) { return std::as_bytes(std::span(text)); }

// Creates every file, claims its space and writes its header, before any value is computed. The index comes
// last.
Result<Files> openFiles(const ShardLayout &layout) {
  std::vector<std::string> paths;
  for (const Shard &shard : layout.shards) {
    paths.push_back(shard.path);
  }
  if (!layout.index_path.empty()) {
    paths.push_back(layout.index_path);
  }
  Files files;
  for (const std::string &path : paths) {
    Result<AtomicFile> file = AtomicFile::create(path);
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

Status checkFreeSpace(const std::string &path, uint64_t bytes) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  folder = folder.empty() ? "." : folder;
  struct statvfs space;
  if (::statvfs(folder.c_str(), &space) != 0) {
    return runtime::fail(SMELT_io, fmt::format("{}: cannot be created: {}", path, runtime::errnoText(errno)));
  }
  uint64_t available = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  if (available < bytes) {
    return runtime::fail(SMELT_io,
                         fmt::format("{}: cannot be written: it needs {}, but '{}' has {} free", path,
                                     runtime::formatBytes(bytes), folder, runtime::formatBytes(available)));
  }
  return runtime::success();
}

Result<InitResult> initWeights(const spec::ModelSpec &spec, const InitOptions &options) {
  ShardLayout layout;
  if (Status status = layOutShards(spec, options, layout); !status.ok()) {
    return status;
  }
  InitResult summary = summarise(layout, options);
  if (Status status = checkFreeSpace(options.path, summary.bytes); !status.ok()) {
    return status;
  }
  Result<Files> files = openFiles(layout);
  if (!files.ok()) {
    return files.takeStatus();
  }
  if (Status status = DataWriter(layout, *files, options).run(); !status.ok()) {
    return status;
  }
  // In order, the index last: a reader that finds it finds every file it names.
  for (AtomicFile &file : *files) {
    if (Status status = file.commitUnflushed(); !status.ok()) {
      return status;
    }
  }
  return summary;
}

} // namespace smelt::weights
