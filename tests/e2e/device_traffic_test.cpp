// What a decode step of a whole model launches on a GPU, loads of its weights and stores in its cache. Bytes
// are counted by the look-alike driver: every matrix once a visit, of experts those that were chosen.
#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Artifact.h"
#include "runtime/src/cuda/DevicePlan.h"
#include "runtime/src/cuda/Module.h"
#include "tests/e2e/Fixture.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <dlfcn.h>
#include <numeric>
#include <span>

using namespace smelt;
using namespace smelt::tests;

namespace {

using Counts = std::span<const uint8_t>;

// Warps without rows of their own load the last ones of a matrix again, or of each of six heads that are
// normalised: these are in the cache then.
constexpr uint64_t MOST_REPEATED = 2 * 6;

template <typename Function> Function hook(const char *name) {
  static void *library = dlopen(SMELT_TEST_CUDA_LIBRARY, RTLD_NOW); // the one the runtime uses
  REQUIRE(library);
  return reinterpret_cast<Function>(dlsym(library, name));
}

// Counts the accesses to the only allocation of this size.
class Counted {
public:
  explicit Counted(uint64_t bytes) : bytes(bytes) {
    address = hook<uint64_t (*)(size_t)>("smelt_test_cuda_allocation_of")(bytes);
    REQUIRE(address != 0);
    REQUIRE(hook<bool (*)(uint64_t)>("smelt_test_cuda_count_accesses")(address));
  }
  Counts reads() const { return counts(false); }
  Counts writes() const { return counts(true); }

private:
  Counts counts(bool writes) const {
    return {hook<const uint8_t *(*)(uint64_t, bool)>("smelt_test_cuda_access_counts")(address, writes),
            bytes};
  }
  uint64_t address, bytes;
};

// Every kind of layer: QK-norms of both kinds and none, biases, shared experts, a dense ffn, visits.
spec::ModelSpec everyFeature() {
  spec::ModelSpec spec = raggedSpec();
  spec.attention.query_heads = 6;
  spec.attention.kv_heads = 2;
  for (spec::Segment &segment : spec.segments) {
    segment.attention = spec.attention;
  }
  spec.segments[0].attention.qk_norm = spec::QkNorm::full_width;
  spec.segments[1].attention.qk_norm = spec::QkNorm::per_head;
  return spec;
}

// Checks the tensor that the counts of `bytes` are of: everything read `times` times but for a few rows,
// which may have been read more often.
void checkMatrix(Counts counts, const runtime::cuda::PackedShape &shape, uint8_t times) {
  uint64_t repeated = 0;
  for (uint64_t row = 0; row < shape.rows; ++row) {
    Counts bytes = counts.subspan(2 * row * shape.strideColumns, 2 * shape.columns);
    auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    CHECK(*least >= times);
    repeated += *most > times;
  }
  CHECK(repeated <= MOST_REPEATED);
}

} // namespace

TEST_CASE("a decode step on a GPU reads every weight once a visit, and appends to the cache once") {
  REQUIRE(setenv("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA_LIBRARY, 1) == 0); // a GPU counts nothing
  const spec::ModelSpec spec = everyFeature();
  const Built built = build(spec, {Precision::bf16, false, {"cuda:sm_80"}});
  const RuntimeModel model = built.model();
  SessionSettings settings;
  settings.device = "cuda:0";
  settings.max_step_tokens = 1;
  RuntimeSession session(model, settings);
  session.append(randomTokens(spec.vocab_size, 3, 1));

  auto artifact = runtime::Artifact::open(built.artifact);
  REQUIRE(artifact.ok());
  auto target = runtime::cuda::findTarget(**artifact, "cuda:sm_80");
  REQUIRE(target.ok());
  smelt_session_options options = {};
  smelt_session_get_options(session.get(), &options);
  auto plan = runtime::cuda::planDevice(**artifact, **target, options);
  REQUIRE(plan.ok());
  Counted weights(plan->weightBytes), cache(plan->stateBytes);
  session.append({5});

  std::vector<uint8_t> visits; // of each layer
  uint64_t appended = 0;
  for (const spec::Segment &segment : spec.segments) {
    visits.insert(visits.end(), size_t(segment.layers), uint8_t(segment.visits));
    appended += uint64_t(segment.executedLayers() * 2 * segment.attention.kvWidth() * 2); // bf16
  }
  Counts writes = cache.writes(), reads = weights.reads();
  CHECK(std::accumulate(writes.begin(), writes.end(), uint64_t(0)) == appended);
  CHECK(*std::max_element(writes.begin(), writes.end()) == 1);
  uint64_t matrices = 0;
  const auto &table = *(*artifact)->manifest().weights();
  for (uint32_t i = 0; i < table.size(); ++i) {
    const artifact::Weight &weight = *table.Get(i);
    const runtime::cuda::WeightPlace &place = plan->weights[i];
    CAPTURE(weight.name()->str());
    for (uint32_t layer = 0; layer < std::max(weight.layers(), 1u); ++layer) {
      CAPTURE(layer);
      uint8_t times = weight.layers() ? visits[weight.first_layer() + layer] : 1;
      auto tensor = [&](uint64_t expert) {
        return reads.subspan(place.offset + layer * place.layerStride + expert * place.shape.bytes,
                             2 * place.shape.strideRows * place.shape.strideColumns);
      };
      if (weight.experts()) {
        uint64_t chosen = 0;
        for (uint32_t expert = 0; expert < weight.experts(); ++expert) {
          Counts bytes = tensor(expert);
          chosen += bytes[0];
          CHECK(std::all_of(bytes.begin(), bytes.end(), [&](uint8_t count) { return count == bytes[0]; }));
        }
        CHECK(chosen == uint64_t(times) * uint64_t(spec.moe->top_k));
      } else if (weight.name()->str().find("embed") != std::string::npos) {
        Counts bytes = tensor(0); // one row of it
        CHECK(std::accumulate(bytes.begin(), bytes.end(), uint64_t(0)) <= 2 * place.shape.strideColumns);
      } else if (place.shape.layout == artifact::DeviceLayout::vector) { // every block reads it
        CHECK(*std::min_element(tensor(0).begin(), tensor(0).begin() + long(2 * place.shape.columns)) >=
              times);
      } else {
        checkMatrix(tensor(0), place.shape, times);
        ++matrices;
      }
    }
  }
  // q, k, v and o of three layers, two routers, shared experts of two layers, a dense ffn, the head.
  CHECK(matrices == 3 * 4 + 2 + 2 * 3 + 3 + 1);
}

TEST_CASE(
    "a layer of a decode step on a GPU is six launches, five when it is dense, whatever the spec says") {
  for (int64_t shared : {0, 2}) {
    for (bool bias : {false, true}) {
      spec::ModelSpec spec = everyFeature();
      spec.moe->shared_experts = shared;
      spec.moe->shared_expert_hidden_size = shared ? 24 : 0;
      spec.segments.clear();
      std::vector<size_t> expected;
      for (spec::QkNorm norm : {spec::QkNorm::none, spec::QkNorm::per_head, spec::QkNorm::full_width}) {
        for (spec::FfnKind ffn : {spec::FfnKind::moe, spec::FfnKind::dense}) {
          spec::Segment segment;
          segment.layers = 1;
          segment.visits = 2;
          segment.ffn = ffn;
          segment.attention = spec.attention;
          segment.attention.qk_norm = norm;
          segment.attention.qkv_bias = bias;
          spec.segments.push_back(segment);
          expected.push_back(ffn == spec::FfnKind::moe ? 6 : 5);
        }
      }
      const Built built = build(spec, {Precision::bf16, false, {"cuda:sm_90a"}});
      auto artifact = runtime::Artifact::open(built.artifact);
      REQUIRE(artifact.ok());
      const auto &program = *(*artifact)->manifest().devices()->Get(0)->programs()->Get(0);
      REQUIRE(program.max_tokens() == 8);
      std::vector<size_t> launches; // of the layer of each block that has one
      for (const artifact::Block *block : *program.blocks()) {
        size_t count = 0;
        for (const artifact::Call *call : *block->calls()) {
          count += program.device_kernels()->Get(call->kernel())->stages()->size();
        }
        if (block->visits() == 2) {
          launches.push_back(count);
        }
      }
      CAPTURE(shared, bias);
      CHECK(launches == expected);
    }
  }
}
