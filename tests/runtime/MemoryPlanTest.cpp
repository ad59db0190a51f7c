#include "runtime/src/MemoryPlan.h"
#include "runtime/src/RopeTable.h"
#include "runtime/src/SystemCpus.h"
#include "runtime/src/SystemMemory.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace smelt::tests;
using namespace smelt::runtime;
using namespace smelt::artifact;
using Catch::Matchers::Contains;

namespace {

struct Fixture {
  Result<MemoryPlan> plan(const ManifestT &manifest, uint32_t sequences, uint32_t capacity) {
    smelt_session_options options;
    smelt_session_options_init(&options);
    options.sequences = sequences;
    options.capacity = capacity;
    options.max_step_tokens = 5;
    options.threads = 1;
    file.emplace(std::as_bytes(std::span(bytes = packArtifact(manifest, toyCode()))));
    auto artifact = Artifact::parse("m.smelt", file->bytes());
    REQUIRE(artifact.ok());
    REQUIRE(resolveOptions(options).ok());
    return planMemory(**artifact, options);
  }
  std::string bytes;
  std::optional<AlignedBytes> file;
};

} // namespace

TEST_CASE("A size formula is evaluated or overflows") {
  Extent extent{.tokens = 3, .logitRows = 5, .sequences = 7, .capacity = 16};
  CHECK(evaluate(Size(1, 10, 100, 1000, 10000), extent) == 1u + 30 + 500 + 16000 + 7 * 16 * 10000);
  CHECK(evaluate(Size(UINT64_MAX, 0, 0, 0, 0), extent) == UINT64_MAX);
  CHECK(!evaluate(Size(UINT64_MAX, 1, 0, 0, 0), extent));
  CHECK(!evaluate(Size(0, UINT64_MAX, 0, 0, 0), extent));
  CHECK(!evaluate(Size(0, 0, 0, 0, UINT64_MAX / 16), extent));
}

TEST_CASE_METHOD(Fixture, "Buffers lie apart, at multiples of 64 bytes") {
  auto plan = this->plan(toyManifest(), 2, 16);
  REQUIRE(plan.ok());
  CHECK(plan->offsets[toy::tokenIds] == 0);
  CHECK(plan->offsets[toy::positions] == 64);
  CHECK(plan->offsets[toy::x] == 256);
  CHECK(plan->strides[toy::x] == 128); // 5 tokens of 16 bytes
  CHECK(plan->strides[toy::state] == 2 * 16 * 16);
  CHECK(plan->stateBytes == 6 * 2 * 16 * 16);
  CHECK(plan->memory.workspace == plan->arenaBytes);
  CHECK(checkFits(*plan, {}, plan->memory.total).ok());
  CHECK(checkFits(*plan, {}, plan->memory.total - 1).code == SMELT_memory);
}

TEST_CASE_METHOD(Fixture, "Overflowing plans are refused") {
  ManifestT manifest = toyManifest();
  manifest.buffers[toy::x]->size = std::make_unique<Size>(0, 16, 0, 0, uint64_t(1) << 50);
  auto plan = this->plan(manifest, 1 << 20, 1 << 30);
  REQUIRE(!plan.ok());
  CHECK(plan.status().code == SMELT_memory);
  CHECK_THAT(plan.status().message,
             Contains("the size of buffer 'x' overflows for 1048576 sequences of 1073741824"));
}

TEST_CASE("Defaults of a session are resolved") {
  smelt_session_options options;
  smelt_session_options_init(&options);
  options.capacity = 17;
  options.max_step_tokens = 8;
  REQUIRE(resolveOptions(options).ok());
  CHECK(options.capacity == 32);
  CHECK(options.max_logit_rows == 8);
  CHECK(options.threads >= 1);
}

TEST_CASE("A rope table holds cosines and sines") {
  float table[3][6];
  fillRopeTable(&table[0][0], 3, 6, 10000);
  for (int position = 0; position < 3; ++position) {
    for (int i = 0; i < 3; ++i) {
      double angle = position * std::pow(10000.0, -2.0 * i / 6);
      CHECK(table[position][i] == float(std::cos(angle)));
      CHECK(table[position][3 + i] == float(std::sin(angle)));
    }
  }
}

TEST_CASE("Some CPU is usable") {
  CHECK(usableCpus() >= 1);
  CHECK(usableCpus() <= 4096);
}

TEST_CASE("Some memory is available, less than exists") {
  CHECK(availableMemory() > 1 << 20);
  CHECK(availableMemory() < uint64_t(1) << 50);
}
