// Damage at any place must be refused, or at least do no harm once the checksum is out of the way.
#include "runtime/src/Artifact.h"
#include "runtime/src/MemoryPlan.h"
#include "runtime/src/cuda/DevicePlan.h"
#include "tests/runtime/CudaToy.h"

#include <catch2/catch.hpp>

using namespace smelt::tests;
using namespace smelt::runtime;

namespace {

std::string smallFile() { return packArtifact(toyManifest({.layers = 1, .visits = 1}), toyCode()); }

bool accepted(std::span<const std::byte> bytes, ArtifactOptions options) {
  auto artifact = Artifact::parse("m.smelt", bytes, options);
  if (!artifact.ok()) {
    CHECK(artifact.status().code == SMELT_artifact);
    CHECK(!artifact.status().message.empty());
    return false;
  }
  smelt_session_options session;
  smelt_session_options_init(&session);
  session.sequences = 3;
  session.capacity = 1 << 20;
  REQUIRE(resolveOptions(session).ok());
  (void)planMemory(**artifact, session); // may fail, must not overflow
  if (const auto *devices = (*artifact)->manifest().devices()) {
    for (const auto *target : *devices) {
      (void)cuda::planDevice(**artifact, *target, session);
    }
  }
  return true;
}

// Without code, which nothing here runs.
std::string smallDeviceFile() {
  smelt::artifact::ManifestT manifest = cudaToyManifest({.layers = 1, .visits = 1});
  manifest.variants.clear();
  manifest.devices[0]->images[0]->offset = 0;
  manifest.devices[0]->images[0]->size = 1;
  return packArtifact(manifest, std::string(1, '\0'));
}

} // namespace

TEST_CASE("Truncation at every byte is refused") {
  std::string file = smallFile();
  for (size_t size = 0; size < file.size(); ++size) {
    AlignedBytes bytes(std::as_bytes(std::span(file.data(), size)));
    REQUIRE(!accepted(bytes.bytes(), {}));
  }
}

TEST_CASE("Truncation with a matching header does no harm") {
  std::string file = smallFile();
  smelt_artifact_header header;
  std::memcpy(&header, file.data(), sizeof header);
  for (size_t size = sizeof header; size < header.code_offset; ++size) {
    smelt_artifact_header shorter = header;
    shorter.file_size = size;
    shorter.manifest_size = size - sizeof header;
    shorter.code_offset = 0;
    AlignedBytes bytes(std::as_bytes(std::span(file.data(), size)));
    std::memcpy(bytes.bytes().data(), &shorter, sizeof shorter);
    REQUIRE(!accepted(bytes.bytes(), {.verifyChecksum = false}));
  }
}

TEST_CASE("Every flipped bit the checksum covers is refused") {
  std::string file = smallFile();
  AlignedBytes bytes(std::as_bytes(std::span(file)));
  for (size_t bit = SMELT_ARTIFACT_CHECKSUM_BEGIN * 8; bit < file.size() * 8; bit += 7) {
    bytes.bytes()[bit / 8] ^= std::byte(1 << bit % 8);
    REQUIRE(!accepted(bytes.bytes(), {}));
    bytes.bytes()[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

TEST_CASE("Flipped bits in header and manifest do no harm without the checksum") {
  std::string file = GENERATE(smallFile(), smallDeviceFile());
  AlignedBytes bytes(std::as_bytes(std::span(file)));
  smelt_artifact_header header;
  std::memcpy(&header, file.data(), sizeof header);
  size_t end = header.manifest_offset + header.manifest_size, harmless = 0;
  for (size_t bit = 0; bit < end * 8; ++bit) {
    bytes.bytes()[bit / 8] ^= std::byte(1 << bit % 8);
    harmless += accepted(bytes.bytes(), {.verifyChecksum = false});
    bytes.bytes()[bit / 8] ^= std::byte(1 << bit % 8);
  }
  CHECK(harmless < end * 4); // names, budgets and the like may change unseen; most of it may not
}
