#include "runtime/src/MemoryPlan.h"
#include "runtime/src/RopeTable.h"
#include "runtime/src/SystemCpus.h"
#include "runtime/src/SystemMemory.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <fstream>

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

TEST_CASE("A group leaves its limit less what it uses other than page cache") {
  TemporaryFolder folder;
  std::string path = folder.write("memory.stat", "anon 70\ninactive_file 10\nactive_file 20\n");
  path.resize(path.rfind('/'));
  auto left = [&](uint64_t least, const std::string &limit, const std::string &usage) {
    folder.write("memory.max", limit + "\n");
    folder.write("memory.current", usage + "\n");
    return leastAvailable(least, 1000, path, {"memory.max", "memory.current"});
  };
  CHECK(left(900, "200", "100") == 130);
  CHECK(left(120, "200", "100") == 120); // the machine has less
  CHECK(left(90, "200", "100") == 90);   // plain from the usage
  CHECK(left(900, "max", "100") == 900); // no limit
  CHECK(left(900, "2000", "x") == 900);  // plain from the limit: nothing else is read
  CHECK(left(900, "1500", "x") == 900);  // unknown usage
  CHECK(left(900, "950", "100") == 880);
  CHECK(left(900, "100", "200") == 0);
  CHECK(leastAvailable(900, 1000, path + "/none", {"memory.max", "memory.current"}) == 900);
}

TEST_CASE("Large pages are counted as the system counts them") {
  Result<Memory> memory = Memory::allocate(uint64_t(16) << 20, "a test");
  REQUIRE(memory.ok());
  CHECK(hugePageBytes(memory->data(), memory->size()) == 0);
  std::memset(memory->data(), 1, memory->size());
  std::ifstream in("/proc/self/smaps");
  uint64_t expected = 0, begin = 0, end = 0, kilobytes = 0;
  auto at = reinterpret_cast<uintptr_t>(memory->data());
  for (std::string line; std::getline(in, line);) {
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) != 2 && begin < at + memory->size() && at < end &&
        std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kilobytes) == 1) {
      expected += kilobytes * 1024;
    }
  }
  CHECK(hugePageBytes(memory->data(), memory->size()) == std::min<uint64_t>(expected, memory->size()));
  CHECK(hugePageBytes(memory->data() + 100, 1000) <= 1000);
}
