// What a cache of packed weights was made of.
#include "runtime/schema/manifest_generated.h"
#include "runtime/src/WeightBinding.h"
#include "runtime/src/WeightCache.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <string_view>

namespace smelt::runtime {
namespace {

// Pieces of each file's data that go into the key: files of equal size, time and header that hold other
// values, such as another state of the same training, differ in them.
constexpr uint64_t sampleCount = 16, sampleBytes = 4096;

class Digest {
public:
  void add(uint64_t value) { text.append(reinterpret_cast<const char *>(&value), sizeof value); }
  void add(std::span<const std::byte> bytes) {
    add(bytes.size());
    XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    add(hash.low64);
    add(hash.high64);
  }
  CacheDigest value() const {
    XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return {hash.low64, hash.high64};
  }

private:
  std::string text;
};

// Every field of every weight, also those that later versions add: as the writer would store it.
CacheDigest layoutsOf(const artifact::Manifest &manifest) {
  Digest digest;
  digest.add(packingVersion);
  for (const artifact::Weight *weight : *manifest.weights()) {
    artifact::WeightT fields;
    weight->UnPackTo(&fields);
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(artifact::CreateWeight(builder, &fields));
    digest.add(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
  }
  return digest.value();
}

void addSource(Digest &digest, const BoundWeights &weights, const WeightFile &file) {
  std::span<const std::byte> bytes = file.file.bytes();
  digest.add(bytes.size());
  digest.add(uint64_t(file.file.modified()));
  digest.add(bytes.first(file.header.dataStart));
  std::span<const std::byte> data = bytes.subspan(file.header.dataStart);
  for (uint64_t i = 0; i < sampleCount && !data.empty(); ++i) {
    uint64_t begin = data.size() / sampleCount * i;
    std::span<const std::byte> sample =
        data.subspan(begin, std::min<uint64_t>(sampleBytes, data.size() - begin));
    digest.add(sample);
    weights.dropPages(sample.data(), sample.size()); // and what was mapped around it, perhaps 2 MiB
  }
}

} // namespace

Result<WeightCacheKey> weightCacheKey(const BoundWeights &weights) {
  if (Status status = weights.checkFiles(); !status.ok()) {
    return status;
  }
  Digest sources;
  for (const WeightFile &file : weights.weightFiles()) {
    addSource(sources, weights, file);
  }
  return WeightCacheKey{layoutsOf(weights.artifact()->manifest()), sources.value()};
}

std::string defaultCachePath(const BoundWeights &weights, const WeightCacheKey &key) {
  return fmt::format("{}.{:016x}.packed", weights.weightFiles().front().file.path(), key.layouts[1]);
}

} // namespace smelt::runtime
