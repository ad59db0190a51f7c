// Any bytes are a sound cache of packed weights, whose data lies within them, or are refused with a message.
// The header's size and checksum are mended, so that mutations of the sizes are not lost.
#include "runtime/src/WeightCache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using smelt::runtime::WeightCacheHeader;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void mend(std::vector<std::byte> &bytes) {
  WeightCacheHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.fileSize = bytes.size();
  uint64_t blocks = header.dataSize / smelt::runtime::weightCacheBlock +
                    (header.dataSize % smelt::runtime::weightCacheBlock != 0);
  std::memcpy(bytes.data(), &header, sizeof header);
  if (blocks <= (bytes.size() - sizeof header) / 8) {
    constexpr size_t begin = offsetof(WeightCacheHeader, dataSize);
    header.checksum = XXH3_64bits(bytes.data() + begin, sizeof header - begin + blocks * 8);
    std::memcpy(bytes.data(), &header, sizeof header);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace smelt::runtime;
  const auto *start = reinterpret_cast<const std::byte *>(data);
  std::vector<std::byte> bytes(start, start + size);
  if (size >= sizeof(WeightCacheHeader)) {
    mend(bytes);
  }
  auto cache = WeightCache::parse("fuzz.packed", bytes);
  if (!cache.ok()) {
    require(cache.status().code == SMELT_weights && !cache.status().message.empty());
    return 0;
  }
  require(cache->data().data() + cache->data().size() == bytes.data() + bytes.size());
  require(cache->data().size() == cache->header().dataSize);
  Status checked = cache->checkData({});
  require(checked.ok() || (checked.code == SMELT_weights && !checked.message.empty()));
  return 0;
}
