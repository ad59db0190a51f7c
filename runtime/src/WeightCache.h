// A file that holds the packed copy of an artifact's weights, so that the next start maps it instead of
// packing again; docs/artifact.md.
#pragma once

#include "runtime/src/MappedFile.h"
#include "runtime/src/ThreadPool.h"

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace smelt::artifact {
struct Manifest;
} // namespace smelt::artifact

namespace smelt::runtime {

class BoundWeights;

// Raise when packing writes other bytes for the same manifest and files: caches of before are packed again.
constexpr uint32_t packingVersion = 1;

using CacheDigest = std::array<uint64_t, 2>; // XXH3-128: low, high

// What a cache was made of. It fits when both are equal.
struct WeightCacheKey {
  CacheDigest layouts = {}; // every weight of the manifest as it stands there, and packingVersion
  CacheDigest sources = {}; // every file's size, time of modification, header, and samples of its data

  bool operator==(const WeightCacheKey &) const = default;
};

// SMELT_io when a file was cut short: its samples cannot be read.
Result<WeightCacheKey> weightCacheKey(const BoundWeights &weights);

// Beside the first weights file: its name, 16 digits of the layouts' digest, ".packed".
std::string defaultCachePath(const BoundWeights &weights, const WeightCacheKey &key);

// Little-endian, at the start of the file; one XXH3-64 for each block of the data follows. The data starts at
// the next multiple of a page, or of a large page when it is as large as one.
struct WeightCacheHeader {
  char magic[8];     // "SMELTPCK"
  uint32_t version;  // of this format; another one is not read
  uint32_t reserved; // 0
  uint64_t fileSize;
  uint64_t checksum; // XXH3-64, seed 0, of bytes 32 to the end of the block checksums
  uint64_t dataSize;
  WeightCacheKey key;
};
static_assert(sizeof(WeightCacheHeader) == 72);

constexpr char weightCacheMagic[] = "SMELTPCK";
constexpr uint32_t weightCacheVersion = 1;
constexpr uint64_t weightCacheBlock = uint64_t(16) << 20; // bytes of data under one checksum

// Returns false to stop.
using CacheProgress = std::function<bool(uint64_t done, uint64_t total)>;

// A cache whose header and sizes are sound. Its data is checked when asked only: that reads all of it.
class WeightCache {
public:
  // SMELT_io: cannot be read. SMELT_weights: is no cache, of another version, or damaged.
  static Result<WeightCache> open(const std::string &path);
  // The same from memory, which must outlive the result. `name` appears in messages.
  static Result<WeightCache> parse(const std::string &name, std::span<const std::byte> bytes);

  const WeightCacheHeader &header() const { return head; }
  std::span<const std::byte> data() const { return bytes; } // 64-byte aligned when opened from a file
  uint64_t blocks() const { return checksums.size(); }

  // SMELT_weights, saying what it was made of instead, unless it was made of this, and is `size` bytes.
  Status checkFits(const WeightCacheKey &key, uint64_t size) const;
  // Reads all data: SMELT_weights lists the blocks that are damaged; SMELT_interrupted; SMELT_io when the
  // file was cut short since it was opened.
  Status checkData(const CacheProgress &progress) const;

private:
  WeightCache() = default;

  std::string name;
  std::optional<MappedFile> file;
  WeightCacheHeader head = {};
  std::vector<uint64_t> checksums; // by block
  std::span<const std::byte> bytes;
};

// Writes the cache to a temporary file beside `path`, on all workers, and renames it. SMELT_io, and
// SMELT_interrupted.
Status writeWeightCache(const std::string &path, const WeightCacheKey &key, std::span<const std::byte> data,
                        ThreadPool &pool, const CacheProgress &progress);

} // namespace smelt::runtime
