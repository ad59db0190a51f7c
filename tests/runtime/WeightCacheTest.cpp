// Caches of packed weights: when they are used, and that nothing else ever is.
#include "runtime/src/WeightCache.h"
#include "runtime/src/WeightPacking.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>

using namespace smelt::tests;
using namespace smelt::runtime;
using Catch::Matchers::Contains;

namespace {

namespace fs = std::filesystem;

struct Fixture {
  TemporaryFolder folder;
  std::string weightsPath = folder.write("w.safetensors", toySafetensors(toyWeights()));
  std::unique_ptr<ThreadPool> pool = std::move(*ThreadPool::create(2));
  std::vector<std::string> notices;

  std::shared_ptr<const Artifact> artifact(bool packsExperts = false) {
    auto manifest = toyManifest();
    manifest.weights[toy::embedding]->layout = smelt::artifact::WeightLayout::panel16;
    if (packsExperts) {
      manifest.weights[toy::expert]->shape = {1, toyWidth};
      manifest.weights[toy::expert]->layout = smelt::artifact::WeightLayout::panel16;
    }
    auto opened = Artifact::open(folder.write("m.smelt", packArtifact(manifest, toyCode())));
    REQUIRE(opened.ok());
    return *opened;
  }

  // As a new process would: binds again.
  Result<std::shared_ptr<const PackedWeights>> start(const std::string &cache = "", bool check = false,
                                                     PackedWeights::Progress progress = {}) {
    notices.clear();
    auto bound = BoundWeights::bind(artifact(), std::vector<std::string>{weightsPath});
    REQUIRE(bound.ok());
    return PackedWeights::of(*bound, *pool,
                             {.progress = std::move(progress),
                              .cache = cache,
                              .checkCache = check,
                              .notice = [&](const std::string &text) { notices.push_back(text); }});
  }

  // The packed embedding must be right whatever it came from.
  void startsRight(const std::string &cache = "", bool check = false) {
    auto packed = start(cache, check);
    REQUIRE(packed.ok());
    auto bound = BoundWeights::bind(artifact(), std::vector<std::string>{weightsPath});
    REQUIRE(bound.ok());
    auto expected = PackedWeights::of(*bound, *pool, {});
    REQUIRE(expected.ok());
    REQUIRE((*packed)->bytes() == (*expected)->bytes());
    CHECK(std::memcmp((*packed)->tensor(toy::embedding, 0), (*expected)->tensor(toy::embedding, 0),
                      (*packed)->bytes()) == 0);
    CHECK(std::memcmp((*packed)->table(toy::expert, 2)[1], (*bound)->table(toy::expert, 2)[1],
                      toyWidth * sizeof(float)) == 0);
  }

  std::string cachePath() {
    for (const auto &entry : fs::directory_iterator(folder.path(""))) {
      if (entry.path().extension() == ".packed") {
        return entry.path();
      }
    }
    return "";
  }

  void flip(const std::string &path, uint64_t offset) {
    std::string bytes = readFile(path);
    bytes[offset] ^= 1;
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // It is told why the cache is not used, and the next start finds a good one.
  void replaces(const std::string &reason) {
    startsRight();
    REQUIRE(notices.size() == 2);
    CHECK_THAT(notices[0], Contains(".packed: ") && Contains(reason) && Contains("; packing again"));
    CHECK_THAT(notices[1], Contains(".packed: written"));
    startsRight("", true);
    CHECK(notices.empty());
  }
};

} // namespace

TEST_CASE_METHOD(Fixture, "The first start writes what it packs beside the weights, the next one maps it") {
  startsRight();
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0], Contains("w.safetensors.") && Contains(".packed: written"));
  CHECK(folder.count() == 3); // the artifact, the weights, and no temporary
  auto written = fs::last_write_time(cachePath());
  startsRight();
  CHECK(notices.empty());
  startsRight("", true);
  CHECK(notices.empty());
  CHECK(fs::last_write_time(cachePath()) == written);
  auto cache = WeightCache::open(cachePath());
  REQUIRE(cache.ok());
  CHECK(cache->data().size() == packedBytes(artifact()->manifest()));
  CHECK(reinterpret_cast<uintptr_t>(cache->data().data()) % 64 == 0);
}

TEST_CASE_METHOD(Fixture, "A cache may have a name of its own") {
  startsRight(folder.path("mine"));
  CHECK(fs::exists(folder.path("mine")));
  startsRight(folder.path("mine"));
  CHECK(notices.empty());
}

TEST_CASE_METHOD(Fixture, "A cache that does not fit is told, packed again and replaced") {
  startsRight();
  std::string path = cachePath();

  SECTION("weights written again") {
    ToyWeights weights = toyWeights();
    weights.embedding[5] += 1;
    folder.write("w.safetensors", toySafetensors(weights));
    fs::last_write_time(weightsPath, fs::last_write_time(weightsPath) + std::chrono::seconds(1));
    replaces("was made of other weights files, or they have changed since");
  }
  SECTION("weights of the same size and time") {
    auto before = fs::last_write_time(weightsPath);
    ToyWeights weights = toyWeights();
    for (float &value : weights.embedding) {
      value += 1;
    }
    folder.write("w.safetensors", toySafetensors(weights));
    fs::last_write_time(weightsPath, before);
    replaces("was made of other weights files, or they have changed since");
  }
  SECTION("weights touched") {
    fs::last_write_time(weightsPath, fs::last_write_time(weightsPath) + std::chrono::seconds(1));
    replaces("was made of other weights files, or they have changed since");
  }
  SECTION("another file") {
    std::ofstream(path) << "something else that is no cache, though it is longer than the header of a cache";
    replaces("is no cache of packed weights: it starts with 'somethin'");
  }
  SECTION("an empty file") {
    std::ofstream(path) << "";
    replaces("is no cache of packed weights: it has 0 bytes");
  }
  SECTION("cut short") {
    fs::resize_file(path, fs::file_size(path) - 1);
    replaces("truncated: the header says");
  }
  SECTION("longer") {
    fs::resize_file(path, fs::file_size(path) + 1);
    replaces("too long: the header says");
  }
  SECTION("a damaged header") {
    flip(path, offsetof(WeightCacheHeader, key));
    replaces("damaged: the header's checksum is");
  }
  SECTION("another version") {
    flip(path, offsetof(WeightCacheHeader, version));
    replaces("is a cache of format 0, this runtime reads 1");
  }
}

TEST_CASE_METHOD(Fixture, "A cache for other layouts is not taken for one") {
  std::string path = folder.path("mine");
  startsRight(path);
  notices.clear();
  auto bound = BoundWeights::bind(artifact(), std::vector<std::string>{weightsPath});
  auto key = weightCacheKey(**bound);
  REQUIRE(key.ok());
  auto cache = WeightCache::open(path);
  REQUIRE(cache.ok());
  uint64_t size = cache->data().size();
  CHECK(cache->checkFits(*key, size).ok());
  CHECK_THAT(cache->checkFits(*key, size + 64).message, Contains("was made for weights of other shapes"));
  key->layouts[1] ^= 1;
  CHECK_THAT(cache->checkFits(*key, size).message, Contains("was made for weights of other shapes"));
}

TEST_CASE("Every field of a weight is in the digest of the layouts") {
  TemporaryFolder folder;
  std::string weights = folder.write("w.safetensors", toySafetensors(toyWeights()));
  auto keyOf = [&](const smelt::artifact::ManifestT &manifest) {
    auto artifact = Artifact::open(folder.write("m.smelt", packArtifact(manifest, toyCode())));
    REQUIRE(artifact.ok());
    auto bound = BoundWeights::bind(*artifact, std::vector<std::string>{weights});
    REQUIRE(bound.ok());
    auto key = weightCacheKey(**bound);
    REQUIRE(key.ok());
    return *key;
  };
  auto plain = toyManifest(), packed = toyManifest(), renamed = toyManifest();
  packed.weights[toy::embedding]->layout = smelt::artifact::WeightLayout::panel16;
  renamed.model_name = "another"; // nothing that packing depends on
  CHECK(keyOf(plain) == keyOf(plain));
  CHECK(keyOf(plain) == keyOf(renamed));
  CHECK(keyOf(plain).layouts != keyOf(packed).layouts);
  CHECK(keyOf(plain).sources == keyOf(packed).sources);
}

TEST_CASE_METHOD(Fixture, "Damaged data is found when asked for") {
  startsRight();
  flip(cachePath(), fs::file_size(cachePath()) - 1);
  CHECK(start().ok());
  CHECK(notices.empty()); // as with the weights file itself, nothing reads all of it
  startsRight("", true);
  REQUIRE(notices.size() == 2);
  CHECK_THAT(notices[0],
             Contains("the packed weights are damaged:\n  bytes 4096 to ") && Contains("; packing again"));
  startsRight("", true);
  CHECK(notices.empty());
}

TEST_CASE_METHOD(Fixture, "A cache that cannot be written is told, and no error") {
  startsRight(folder.path("no/such/folder"));
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0],
             Contains("no/such/folder: cannot be created") && Contains("going on without a weights cache"));
}

TEST_CASE_METHOD(Fixture, "An interrupted start leaves no cache") {
  int calls = 0;
  auto stopped = start("", false, [&](uint64_t done, uint64_t total) {
    calls += done == total; // once packed, once written
    return calls < 1 || done < total || total == 0;
  });
  REQUIRE(!stopped.ok());
  CHECK(stopped.status().code == SMELT_interrupted);
  CHECK(cachePath() == "");
  CHECK(folder.count() == 2);
}

TEST_CASE_METHOD(Fixture, "Hash weights have no cache") {
  auto bound = BoundWeights::bind(artifact(), std::vector<std::string>{"splat:1"});
  REQUIRE(bound.ok());
  REQUIRE((*bound)->generate(1).ok());
  auto packed = PackedWeights::of(*bound, *pool, {.cache = "x"});
  REQUIRE(!packed.ok());
  CHECK(packed.status().code == SMELT_input);
}

namespace {

std::string cacheFile(uint64_t size) {
  TemporaryFolder folder;
  std::vector<std::byte> data(size);
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = std::byte(i * 7 + i / 251);
  }
  auto pool = ThreadPool::create(3);
  REQUIRE(writeWeightCache(folder.path("c"), {.layouts = {1, 2}, .sources = {3, 4}}, data, **pool, {}).ok());
  return readFile(folder.path("c"));
}

} // namespace

TEST_CASE("Caches of any size read back") {
  for (uint64_t size : {uint64_t(0), uint64_t(1), uint64_t(64), 2 * weightCacheBlock + 64}) {
    std::string file = cacheFile(size);
    auto cache = WeightCache::parse("c", std::as_bytes(std::span(file)));
    REQUIRE(cache.ok());
    CHECK(cache->data().size() == size);
    CHECK(cache->blocks() == (size + weightCacheBlock - 1) / weightCacheBlock);
    CHECK(cache->header().key == WeightCacheKey{{1, 2}, {3, 4}});
    CHECK(cache->checkData({}).ok());
    CHECK((size == 0 || cache->data()[size - 1] == std::byte((size - 1) * 7 + (size - 1) / 251)));
  }
}

TEST_CASE("Damage to a block is found in it") {
  std::string file = cacheFile(2 * weightCacheBlock + 64);
  file[file.size() - 64 - weightCacheBlock] ^= 4;
  auto cache = WeightCache::parse("c", std::as_bytes(std::span(file)));
  REQUIRE(cache.ok());
  std::string message = cache->checkData({}).message;
  uint64_t begin = file.size() - 64 - weightCacheBlock;
  CHECK_THAT(message, Contains("bytes " + std::to_string(begin) + " to " + std::to_string(file.size() - 64)));
  CHECK(std::count(message.begin(), message.end(), '\n') == 1);
  CHECK(cache->checkData([](uint64_t, uint64_t) { return false; }).code == SMELT_interrupted);
}

TEST_CASE("Truncation and damage at every byte of a cache's header are refused") {
  std::string file = cacheFile(64);
  size_t header = sizeof(WeightCacheHeader) + sizeof(uint64_t);
  for (size_t size = 0; size < file.size(); size += size < header ? 1 : 61) {
    AlignedBytes bytes(std::as_bytes(std::span(file.data(), size)));
    auto cache = WeightCache::parse("c", bytes.bytes());
    REQUIRE(!cache.ok());
    CHECK(cache.status().code == SMELT_weights);
  }
  for (size_t i = 0; i < header; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(i, bit);
      AlignedBytes bytes(std::as_bytes(std::span(file)));
      bytes.bytes()[i] ^= std::byte(1 << bit);
      bool reserved = i >= offsetof(WeightCacheHeader, reserved) && i < offsetof(WeightCacheHeader, fileSize);
      REQUIRE(WeightCache::parse("c", bytes.bytes()).ok() == reserved);
    }
  }
}
