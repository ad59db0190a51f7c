// Damaged artifacts and weights are refused with a message, never with a crash. In one process, file by file;
// command_line_test.cpp checks what a user sees.
#include "smelt/artifact.h"
#include "smelt/runtime.h"
#include "tests/e2e/Fixture.h"
#include "tests/support/Safetensors.h"
#include "tests/support/TempFolder.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace smelt::tests;

namespace {

struct Outcome {
  smelt_status status = SMELT_ok;
  std::string message;
};

Outcome outcome(smelt_status status, char *error) {
  Outcome result{status, error ? error : ""};
  smelt_error_free(error);
  return result;
}

Outcome openArtifact(const std::string &path) {
  smelt_artifact *artifact = nullptr;
  char *error = nullptr;
  const smelt_status status = smelt_artifact_open(path.c_str(), &artifact, &error);
  smelt_artifact_close(artifact);
  return outcome(status, error);
}

Outcome openWeights(const smelt_artifact *artifact, const std::string &path) {
  smelt_weights *weights = nullptr;
  char *error = nullptr;
  const char *paths[] = {path.c_str()};
  const smelt_status status = smelt_weights_open(artifact, paths, 1, &weights, &error);
  smelt_weights_close(weights);
  return outcome(status, error);
}

void requireRefused(const Outcome &result, smelt_status status) {
  REQUIRE(result.status == status);
  REQUIRE(!result.message.empty());
}

// Every length near the start, then a spread up to one byte short of the whole.
std::vector<size_t> cutLengths(size_t size) {
  std::vector<size_t> lengths;
  for (size_t length = 0; length < std::min<size_t>(size, 72); ++length) {
    lengths.push_back(length);
  }
  for (size_t length = 72; length < size; length += size / 61 + 1) {
    lengths.push_back(length);
  }
  lengths.push_back(size - 1);
  return lengths;
}

std::string withFlippedBit(std::string bytes, size_t offset, int bit) {
  bytes[offset] = static_cast<char>(bytes[offset] ^ (1 << bit));
  return bytes;
}

std::string withFreshChecksum(std::string bytes) {
  const XXH64_hash_t checksum =
      XXH3_64bits(bytes.data() + SMELT_ARTIFACT_CHECKSUM_BEGIN, bytes.size() - SMELT_ARTIFACT_CHECKSUM_BEGIN);
  std::memcpy(bytes.data() + offsetof(smelt_artifact_header, checksum), &checksum, sizeof(checksum));
  return bytes;
}

} // namespace

TEST_CASE("a truncated artifact is refused") {
  const TempFolder folder;
  const std::string whole = readBytes(goldenArtifact("qwen3-moe"));
  const std::string path = folder.file("cut.smelt");
  for (const size_t length : cutLengths(whole.size())) {
    CAPTURE(length);
    writeBytes(path, whole.substr(0, length));
    requireRefused(openArtifact(path), SMELT_artifact);
  }
}

TEST_CASE("an artifact with bytes after its end is refused") {
  const TempFolder folder;
  const std::string path = folder.file("long.smelt");
  writeBytes(path, readBytes(goldenArtifact("qwen3-moe")) + "x");
  requireRefused(openArtifact(path), SMELT_artifact);
}

TEST_CASE("an artifact with a flipped bit is refused") {
  const TempFolder folder;
  const std::string whole = readBytes(goldenArtifact("qwen3-moe"));
  const std::string path = folder.file("flipped.smelt");
  std::mt19937 random(1);
  for (size_t trial = 0; trial < 8 * sizeof(smelt_artifact_header) + 200; ++trial) {
    const bool in_header = trial < 8 * sizeof(smelt_artifact_header);
    const size_t offset = in_header ? trial / 8 : random() % whole.size();
    const int bit = static_cast<int>(trial % 8);
    // A newer minor version only adds what this reader may skip.
    if (offset >= offsetof(smelt_artifact_header, version_minor) &&
        offset < offsetof(smelt_artifact_header, file_size)) {
      continue;
    }
    CAPTURE(offset, bit);
    writeBytes(path, withFlippedBit(whole, offset, bit));
    requireRefused(openArtifact(path), SMELT_artifact);
  }
}

// With the checksum made right again it is the verification of the structure that must hold.
TEST_CASE("a manifest with a flipped bit never crashes the reader") {
  const TempFolder folder;
  const std::string whole = readBytes(goldenArtifact("qwen3-moe"));
  const std::string path = folder.file("flipped.smelt");
  smelt_artifact_header header;
  std::memcpy(&header, whole.data(), sizeof(header));
  std::mt19937 random(2);
  for (int trial = 0; trial < 1500; ++trial) {
    const size_t offset = header.manifest_offset + random() % header.manifest_size;
    const int bit = static_cast<int>(random() % 8);
    CAPTURE(offset, bit);
    writeBytes(path, withFreshChecksum(withFlippedBit(whole, offset, bit)));
    const Outcome result = openArtifact(path);
    if (result.status != SMELT_ok) {
      requireRefused(result, SMELT_artifact);
    }
  }
}

TEST_CASE("truncated weights are refused") {
  const TempFolder folder;
  const RuntimeModel model = goldenModel("qwen3-moe");
  const std::string whole = readBytes(goldenFile("qwen3-moe", ".safetensors"));
  const std::string path = folder.file("cut.safetensors");
  for (const size_t length : cutLengths(whole.size())) {
    CAPTURE(length);
    writeBytes(path, whole.substr(0, length));
    requireRefused(openWeights(model.artifact(), path), SMELT_weights);
  }
}

TEST_CASE("a weights header with a flipped bit is refused or still means the same tensors") {
  const TempFolder folder;
  const RuntimeModel model = goldenModel("qwen3-moe");
  const std::string whole = readBytes(goldenFile("qwen3-moe", ".safetensors"));
  uint64_t header_size = 0;
  std::memcpy(&header_size, whole.data(), sizeof(header_size));
  const std::string path = folder.file("flipped.safetensors");
  std::mt19937 random(3);
  for (int trial = 0; trial < 64 + 1500; ++trial) {
    const size_t offset = trial < 64 ? trial / 8 : 8 + random() % header_size;
    const int bit = trial < 64 ? trial % 8 : static_cast<int>(random() % 8);
    CAPTURE(offset, bit);
    writeBytes(path, withFlippedBit(whole, offset, bit));
    const Outcome result = openWeights(model.artifact(), path);
    if (result.status != SMELT_ok) {
      requireRefused(result, SMELT_weights);
    }
  }
}

TEST_CASE("every tensor that does not fit is named in one message") {
  const TempFolder folder;
  const RuntimeModel model = goldenModel("qwen3-moe");
  TensorMap tensors = readSafetensors(goldenFile("qwen3-moe", ".safetensors"));
  const std::string missing = "model.layers.0.mlp.experts.3.up_proj.weight";
  const std::string extra = "model.layers.9.self_attn.q_proj.weight";
  const std::string misshapen = "model.layers.2.self_attn.k_proj.weight";
  const std::string mistyped = "model.norm.weight";
  tensors[extra] = tensors.at("model.layers.0.self_attn.q_proj.weight");
  tensors.erase(missing);
  std::swap(tensors.at(misshapen).shape[0], tensors.at(misshapen).shape[1]);
  tensors.at(mistyped) = roundedToBf16({{mistyped, tensors.at(mistyped)}}).at(mistyped);
  const std::string path = folder.file("wrong.safetensors");
  writeSafetensors(path, tensors);

  const Outcome result = openWeights(model.artifact(), path);
  requireRefused(result, SMELT_weights);
  for (const std::string &name : {missing, extra, misshapen, mistyped}) {
    CHECK_THAT(result.message, Catch::Contains(name));
  }
}

TEST_CASE("tokens and positions out of range are refused and nothing has run") {
  const RuntimeModel model = goldenModel("qwen3-moe");
  SessionSettings settings;
  settings.capacity = 16;
  RuntimeSession session(model, settings);
  const auto statusOf = [&](const std::vector<int32_t> &tokens) {
    try {
      session.append(tokens);
    } catch (const RuntimeError &error) {
      CHECK(std::strlen(error.what()) > 0);
      return error.status;
    }
    return SMELT_ok;
  };
  CHECK(statusOf({1, 48}) == SMELT_input);
  CHECK(statusOf({-1}) == SMELT_input);
  CHECK(statusOf(std::vector<int32_t>(17, 1)) == SMELT_input);
  CHECK(session.length() == 0);
  CHECK(statusOf(std::vector<int32_t>(16, 1)) == SMELT_ok);
  CHECK(statusOf({1}) == SMELT_input);
  CHECK(session.length() == 16);
}
