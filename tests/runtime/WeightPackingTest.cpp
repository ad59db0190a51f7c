// The packed form of weights.
#include "runtime/src/WeightPacking.h"
#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/WeightLayout.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <utility>

using namespace smelt::tests;
using namespace smelt::runtime;

namespace {

// Where element (n, k) of a matrix lies, by the words of docs/artifact.md.
uint64_t packedOffset(uint64_t columns, uint64_t elementBytes, uint64_t n, uint64_t k) {
  uint64_t pair = elementBytes == 2 ? 2 : 1, steps = (columns + pair - 1) / pair;
  return ((n / 16 * steps + k / pair) * 16 * pair + n % 16 * pair + k % pair) * elementBytes;
}

struct Aligned {
  explicit Aligned(size_t bytes) : memory(std::move(*Memory::allocate(bytes, "a test"))) {}
  std::byte *data() const { return memory.data(); }
  Memory memory;
};

} // namespace

TEST_CASE("A packed matrix holds every element in its panel and zeros around them") {
  for (uint64_t elementBytes : {2, 4}) {
    for (auto [rows, columns] :
         {std::pair<uint64_t, uint64_t>{1, 1}, {16, 16}, {17, 33}, {48, 7}, {5, 64}, {35, 106}}) {
      CAPTURE(elementBytes, rows, columns);
      PanelShape shape{rows, columns, elementBytes};
      // One byte further than aligned, as a file may have it.
      std::vector<std::byte> source(1 + rows * columns * elementBytes);
      for (size_t i = 0; i < source.size(); ++i) {
        source[i] = std::byte(1 + i * 7 % 251);
      }
      Aligned packed(shape.bytes());
      std::memset(packed.data(), 0xee, shape.bytes());
      packPanels(shape, source.data() + 1, packed.data(), 0, 1);
      packPanels(shape, source.data() + 1, packed.data(), 1, shape.panels());

      std::vector<std::byte> expected(shape.bytes());
      for (uint64_t n = 0; n < rows; ++n) {
        for (uint64_t k = 0; k < columns; ++k) {
          std::memcpy(&expected[packedOffset(columns, elementBytes, n, k)],
                      &source[1 + (n * columns + k) * elementBytes], elementBytes);
        }
      }
      REQUIRE(std::memcmp(packed.data(), expected.data(), expected.size()) == 0);
    }
  }
}

TEST_CASE("Matrices of layout panel16 are packed, other weights stay where the file has them") {
  TemporaryFolder folder;
  auto manifest = toyManifest();
  manifest.weights[toy::embedding]->layout = smelt::artifact::WeightLayout::panel16;
  auto artifact = Artifact::open(folder.write("m.smelt", packArtifact(manifest, toyCode())));
  REQUIRE(artifact.ok());
  std::string file = folder.write("w.safetensors", packSafetensors(toyTensors(toyWeights())));
  auto bound = BoundWeights::bind(*artifact, std::vector<std::string>{file});
  REQUIRE(bound.ok());
  auto pool = ThreadPool::create(2);
  REQUIRE(pool.ok());

  SECTION("and shared by those who ask while somebody has them") {
    uint64_t last = 0, whole = 0;
    auto progress = [&](uint64_t done, uint64_t total) {
      last = done;
      whole = total;
      return true;
    };
    auto packed = PackedWeights::of(*bound, **pool, {.progress = progress});
    REQUIRE(packed.ok());
    CHECK((last == whole && whole > 0));
    CHECK((*packed)->bytes() == packedBytes((*artifact)->manifest()));
    CHECK((*packed)->table(toy::expert, 2)[1] == (*bound)->table(toy::expert, 2)[1]);
    const smelt::artifact::Weight &weight = *(*artifact)->manifest().weights()->Get(toy::embedding);
    uint64_t rows = weight.shape()->Get(0), columns = weight.shape()->Get(1);
    auto *from = static_cast<const float *>((*bound)->tensor(toy::embedding, 0));
    auto *to = static_cast<const char *>((*packed)->tensor(toy::embedding, 0));
    for (uint64_t n = 0; n < rows; ++n) {
      for (uint64_t k = 0; k < columns; ++k) {
        REQUIRE(std::memcmp(to + packedOffset(columns, 4, n, k), from + n * columns + k, 4) == 0);
      }
    }
    CHECK(*PackedWeights::of(*bound, **pool, {}) == *packed);
  }

  SECTION("unless progress says to stop") {
    auto stopped = PackedWeights::of(*bound, **pool, {.progress = [](uint64_t, uint64_t) { return false; }});
    REQUIRE(!stopped.ok());
    CHECK(stopped.status().code == SMELT_interrupted);
  }
}

TEST_CASE("Hash weights are packed as from a file, without ever existing otherwise") {
  using smelt::artifact::DType;
  for (DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(int(dtype));
    auto manifest = toyManifest({.layers = 1, .visits = 1});
    smelt::artifact::WeightT &expert = *manifest.weights[toy::expert];
    expert.layout = smelt::artifact::WeightLayout::panel16;
    expert.dtype = dtype;
    expert.shape = {2003, 1101}; // several pieces, the last one with a part of a panel
    TemporaryFolder folder;
    auto artifact = Artifact::open(folder.write("m.smelt", packArtifact(manifest, toyCode())));
    REQUIRE(artifact.ok());

    std::vector<RawTensor> tensors;
    for (const smelt::artifact::Weight *weight : *(*artifact)->manifest().weights()) {
      for (uint32_t i = 0; i < std::max(weight->experts(), 1u); ++i) {
        RawTensor tensor{expandName(weight->name()->string_view(), 0, i),
                         weight->dtype() == DType::bf16 ? "BF16" : "F32",
                         {weight->shape()->begin(), weight->shape()->end()},
                         std::string(tensorBytes(*weight), '\0')};
        uint64_t elementBytes = weight->dtype() == DType::bf16 ? 2 : 4;
        fillSplat(splatTensor(7, tensor.name, tensor.shape), elementBytes, 0,
                  tensor.bytes.size() / elementBytes, reinterpret_cast<std::byte *>(tensor.bytes.data()));
        tensors.push_back(std::move(tensor));
      }
    }
    std::string file = folder.write("w.safetensors", packSafetensors(tensors));
    auto pool = ThreadPool::create(2);
    REQUIRE(pool.ok());
    auto pack = [&](const std::string &weights) {
      auto bound = BoundWeights::bind(*artifact, std::vector<std::string>{weights});
      REQUIRE(bound.ok());
      REQUIRE((*bound)->generate(2).ok());
      auto packed = PackedWeights::of(*bound, **pool, {});
      REQUIRE(packed.ok());
      return *packed;
    };
    auto fromFile = pack(file), fromSeed = pack("splat:7");
    REQUIRE(fromFile->bytes() == fromSeed->bytes());
    CHECK(std::memcmp(fromFile->tensor(toy::expert, 0), fromSeed->tensor(toy::expert, 0),
                      fromFile->bytes()) == 0);
    CHECK(std::memcmp(fromFile->tensor(toy::embedding, 0), fromSeed->tensor(toy::embedding, 0), 11 * 4 * 4) ==
          0);
  }
}
