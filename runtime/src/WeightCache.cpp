#include "runtime/src/WeightCache.h"

#include "runtime/src/AtomicFile.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace smelt::runtime {
namespace {

constexpr uint64_t checksumBegin = offsetof(WeightCacheHeader, dataSize);
static_assert(checksumBegin == 32);

constexpr uint64_t pageBytes = 4096, largePageBytes = uint64_t(2) << 20;

uint64_t blockCount(uint64_t dataSize) { return (dataSize + weightCacheBlock - 1) / weightCacheBlock; }

uint64_t tableEnd(uint64_t dataSize) {
  return sizeof(WeightCacheHeader) + blockCount(dataSize) * sizeof(uint64_t);
}

uint64_t dataOffset(uint64_t dataSize) {
  uint64_t alignment = dataSize >= largePageBytes ? largePageBytes : pageBytes;
  return (tableEnd(dataSize) + alignment - 1) / alignment * alignment;
}

std::span<const std::byte> blockOf(std::span<const std::byte> data, uint64_t index) {
  uint64_t begin = index * weightCacheBlock;
  return data.subspan(begin, std::min<uint64_t>(weightCacheBlock, data.size() - begin));
}

uint64_t checksumOf(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Status refuse(const std::string &name, const std::string &what) {
  return fail(SMELT_weights, fmt::format("{}: {}", name, what));
}

} // namespace

Result<WeightCache> WeightCache::parse(const std::string &name, std::span<const std::byte> bytes) {
  WeightCache cache;
  WeightCacheHeader &head = cache.head;
  cache.name = name;
  if (bytes.size() < sizeof head) {
    return refuse(name, fmt::format("is no cache of packed weights: it has {} bytes, the header alone has {}",
                                    bytes.size(), sizeof head));
  }
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.magic, weightCacheMagic, sizeof head.magic) != 0) {
    return refuse(name, fmt::format("is no cache of packed weights: it starts with '{}', not '{}'",
                                    printable({head.magic, sizeof head.magic}), weightCacheMagic));
  }
  if (head.version != weightCacheVersion) {
    return refuse(name, fmt::format("is a cache of format {}, this runtime reads {}", head.version,
                                    weightCacheVersion));
  }
  if (head.fileSize != bytes.size()) {
    return refuse(name, fmt::format("{}: the header says {} bytes, the file has {}",
                                    bytes.size() < head.fileSize ? "truncated" : "too long", head.fileSize,
                                    bytes.size()));
  }
  // The size first: the other two could overflow.
  if (head.dataSize > bytes.size() || tableEnd(head.dataSize) > bytes.size() ||
      dataOffset(head.dataSize) + head.dataSize != bytes.size()) {
    return refuse(
        name, fmt::format("damaged: {} bytes of data do not make a file of {}", head.dataSize, bytes.size()));
  }
  uint64_t actual = checksumOf(bytes.subspan(checksumBegin, tableEnd(head.dataSize) - checksumBegin));
  if (actual != head.checksum) {
    return refuse(name, fmt::format("damaged: the header's checksum is {:016x}, it says {:016x}", actual,
                                    head.checksum));
  }
  cache.checksums.resize(blockCount(head.dataSize));
  if (!cache.checksums.empty()) {
    std::memcpy(cache.checksums.data(), bytes.data() + sizeof head,
                cache.checksums.size() * sizeof(uint64_t));
  }
  cache.bytes = bytes.subspan(dataOffset(head.dataSize));
  return cache;
}

Result<WeightCache> WeightCache::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) {
    return file.takeStatus();
  }
  Result<WeightCache> cache = parse(path, file->bytes());
  if (cache.ok()) {
    cache->file.emplace(std::move(*file));
  }
  return cache;
}

Status WeightCache::checkFits(const WeightCacheKey &key, uint64_t size) const {
  if (head.key.layouts != key.layouts || head.dataSize != size) {
    return refuse(name, "was made for weights of other shapes or layouts");
  }
  if (head.key.sources != key.sources) {
    return refuse(name, "was made of other weights files, or they have changed since");
  }
  return success();
}

Status WeightCache::checkData(const CacheProgress &progress) const {
  ProblemList problems(10);
  for (uint64_t i = 0; i < checksums.size(); ++i) {
    if (progress && !progress(i * weightCacheBlock, bytes.size())) {
      return fail(SMELT_interrupted, "stopped while checking the packed weights");
    }
    if (file && file->currentSize() < head.fileSize) {
      return fail(SMELT_io, fmt::format("{}: was cut short while in use: {} of {} bytes are left", name,
                                        file->currentSize(), head.fileSize));
    }
    if (uint64_t actual = checksumOf(blockOf(bytes, i)); actual != checksums[i]) {
      uint64_t begin = dataOffset(head.dataSize) + i * weightCacheBlock;
      problems.add(fmt::format("bytes {} to {}: checksum {:016x}, the header says {:016x}", begin,
                               begin + blockOf(bytes, i).size(), actual, checksums[i]));
    }
  }
  if (progress && !progress(bytes.size(), bytes.size())) {
    return fail(SMELT_interrupted, "stopped while checking the packed weights");
  }
  return problems.empty() ? success() : refuse(name, "the packed weights are damaged:" + problems.text());
}

namespace {

// The blocks of a cache, hashed and written by all workers.
struct BlockWriter {
  AtomicFile &file;
  std::span<const std::byte> data;
  const CacheProgress &progress;
  std::vector<uint64_t> checksums = std::vector<uint64_t>(blockCount(data.size()));
  std::vector<Status> results = std::vector<Status>(checksums.size());
  std::atomic<uint64_t> next{0}, done{0};
  std::atomic<bool> stopped{false}, failed{false};

  static void work(void *context, int32_t worker, int32_t) {
    auto &self = *static_cast<BlockWriter *>(context);
    for (uint64_t i; !self.stopped && !self.failed && (i = self.next.fetch_add(1)) < self.results.size();) {
      self.write(i);
      if (worker == 0 && self.progress && !self.progress(self.done, self.data.size())) {
        self.stopped = true;
      }
    }
  }

  void write(uint64_t index) {
    std::span<const std::byte> block = blockOf(data, index);
    checksums[index] = checksumOf(block);
    results[index] = file.writeAt(dataOffset(data.size()) + index * weightCacheBlock, block);
    if (!results[index].ok()) {
      failed = true;
    }
    done.fetch_add(block.size());
  }
};

} // namespace

Status writeWeightCache(const std::string &path, const WeightCacheKey &key, std::span<const std::byte> data,
                        ThreadPool &pool, const CacheProgress &progress) {
  WeightCacheHeader head = {};
  std::memcpy(head.magic, weightCacheMagic, sizeof head.magic);
  head.version = weightCacheVersion;
  head.fileSize = dataOffset(data.size()) + data.size();
  head.dataSize = data.size();
  head.key = key;
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) {
    return file.takeStatus();
  }
  if (Status status = file->reserve(head.fileSize); !status.ok()) {
    return status;
  }
  BlockWriter writer{.file = *file, .data = data, .progress = progress};
  pool.run(BlockWriter::work, &writer);
  if (writer.stopped) {
    return fail(SMELT_interrupted, "stopped while writing the packed weights");
  }
  for (Status &status : writer.results) {
    if (!status.ok()) {
      return std::move(status);
    }
  }
  std::vector<std::byte> start(tableEnd(data.size()));
  std::memcpy(start.data(), &head, sizeof head);
  if (!writer.checksums.empty()) {
    std::memcpy(start.data() + sizeof head, writer.checksums.data(),
                writer.checksums.size() * sizeof(uint64_t));
  }
  uint64_t checksum = checksumOf(std::span(start).subspan(checksumBegin));
  std::memcpy(start.data() + offsetof(WeightCacheHeader, checksum), &checksum, sizeof checksum);
  if (Status status = file->writeAt(0, start); !status.ok()) {
    return status;
  }
  return file->commit(); // flushed: a start does not read the data to see whether all of it is there
}

} // namespace smelt::runtime
