// The same model from differently laid out files gives the same bits.
#include "compiler/Weights/InitWeights.h"
#include "tests/e2e/Fixture.h"
#include "tests/support/Safetensors.h"
#include "tests/support/TempFolder.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace smelt;
using namespace smelt::tests;

namespace {

std::vector<float> logitsWith(const std::string &artifact, const std::string &weights) {
  const RuntimeModel model(artifact, {weights});
  RuntimeSession session(model);
  return session.append(randomTokens(model.info().vocab_size, 19, 1)).values;
}

// The file with `padding` blanks after its header, which move every tensor.
std::string shifted(const std::string &bytes, size_t padding) {
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  const uint64_t longer = size + padding;
  std::string moved(reinterpret_cast<const char *>(&longer), sizeof(longer));
  return moved + bytes.substr(8, size) + std::string(padding, ' ') + bytes.substr(8 + size);
}

} // namespace

TEST_CASE("weights at any alignment give the same bits") {
  const TempFolder folder;
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const Built built = build(raggedSpec(), {precision, false});
    const std::vector<float> expected = logitsWith(built.artifact, built.weights);
    const std::string bytes = readBytes(built.weights), moved = folder.file("moved.safetensors");
    for (const size_t padding : {1, 2, 3, 4, 20}) {
      CAPTURE(padding, precision == Precision::bf16);
      writeBytes(moved, shifted(bytes, padding));
      CHECK(logitsWith(built.artifact, moved) == expected);
    }
  }
}

TEST_CASE("sharded weights give the same bits as one file") {
  const TempFolder folder;
  const Built built = build(raggedSpec(), {Precision::bf16, false}, 5);
  weights::InitOptions options;
  options.path = folder.file("sharded.safetensors");
  options.seed = 5;
  options.dtype = weights::WeightDType::bf16;
  options.shard_bytes = 200'000;
  const auto written = weights::initWeights(raggedSpec(), options);
  REQUIRE(written.ok());
  REQUIRE(written->files.size() > 3);
  CHECK(logitsWith(built.artifact, written->files.front()) == logitsWith(built.artifact, built.weights));
}

TEST_CASE("a tied head may be in the file when it equals the embedding") {
  const TempFolder folder;
  TensorMap tensors = readSafetensors(goldenFile("qwen3-dense", ".safetensors"));
  const std::vector<float> expected =
      logitsWith(goldenArtifact("qwen3-dense"), goldenFile("qwen3-dense", ".safetensors"));
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  const std::string path = folder.file("tied.safetensors");
  writeSafetensors(path, tensors);
  CHECK(logitsWith(goldenArtifact("qwen3-dense"), path) == expected);

  tensors.at("lm_head.weight").bytes[0] ^= 1;
  writeSafetensors(path, tensors);
  CHECK_THROWS_WITH(logitsWith(goldenArtifact("qwen3-dense"), path), Catch::Contains("lm_head.weight"));
}
