// What looping adds: visits, their order, their own KV slots, and a program that does not grow with them.
#include "tests/e2e/Fixture.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/TempFolder.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <set>

using namespace smelt;
using namespace smelt::tests;

namespace {

// The looped golden case with other visits and order in its middle segment, residual scale 1/visits.
spec::ModelSpec looped(int64_t visits, spec::VisitOrder order) {
  spec::ModelSpec spec = goldenSpec("qwen3-moe-looped");
  spec.segments[1].visits = visits;
  spec.segments[1].order = order;
  spec.segments[1].residual_scale = 1.0 / static_cast<double>(visits);
  return spec;
}

const std::string &goldenWeights() {
  static const std::string path = goldenFile("qwen3-moe-looped", ".safetensors");
  return path;
}

constexpr spec::VisitOrder kOrders[] = {spec::VisitOrder::block, spec::VisitOrder::layer};

std::vector<float> compiledLogits(const std::string &artifact, const std::string &weights,
                                  const std::vector<int32_t> &tokens) {
  const RuntimeModel model(artifact, {weights});
  RuntimeSession session(model);
  return session.append(tokens).values;
}

} // namespace

TEST_CASE("one to four visits in both orders agree with the interpreter and differ from each other") {
  const TempFolder folder;
  const std::vector<int32_t> tokens = randomTokens(48, 21, 1);
  std::vector<std::vector<float>> all;
  for (const spec::VisitOrder order : kOrders) {
    for (int64_t visits = 1; visits <= 4; ++visits) {
      CAPTURE(visits, order == spec::VisitOrder::layer);
      const spec::ModelSpec spec = looped(visits, order);
      const std::string artifact = folder.file("looped.smelt");
      compileSpec(spec, {}, artifact);
      const std::vector<float> logits = compiledLogits(artifact, goldenWeights(), tokens);
      CHECK(relativeL2(logits, InterpretedModel(spec, goldenWeights()).run(tokens).logits) <= 1e-5);
      for (const std::vector<float> &other : all) {
        const bool once_in_both_orders = visits == 1 && &other == &all.front();
        CHECK((once_in_both_orders ? other == logits : relativeL2(logits, other) > 1e-2));
      }
      all.push_back(logits);
    }
  }
}

TEST_CASE("unrolled equals looped bit for bit") {
  for (const std::string name : {"qwen3-moe-looped", "olmoe-looped-layer-order", "glm4-moe-looped"}) {
    CAPTURE(name);
    const TempFolder folder;
    const spec::ModelSpec spec = goldenSpec(name);
    const std::string weights = goldenFile(name, ".safetensors");
    const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 40, 2);
    const CompileSettings unrolled{Precision::f32, true};

    CHECK(InterpretedModel(spec, weights).run(tokens).logits ==
          InterpretedModel(spec, weights, unrolled).run(tokens).logits);

    const std::string straight = folder.file("unrolled.smelt");
    compileSpec(spec, unrolled, straight);
    CHECK(compiledLogits(goldenArtifact(name), weights, tokens) == compiledLogits(straight, weights, tokens));
  }
}

namespace {

// One layer, two layers visited three times, one layer: slots 0, 1..6, 7.
int64_t expectedSlot(int32_t layer, int32_t visit) {
  const bool middle = layer == 1 || layer == 2;
  return middle ? 1 + visit * 2 + (layer - 1) : layer == 0 ? 0 : 7;
}

// The keys that rope_append wrote, by KV slot, with the layer and visit that wrote them.
struct SlotWrites {
  struct Write {
    int32_t layer, visit;
    std::string keys;
  };
  std::map<int64_t, std::vector<Write>> by_slot;

  static void probe(void *user, const smelt_probe *probe) {
    if (std::strcmp(probe->role, "rope_append") != 0 || probe->slot < 0) {
      return;
    }
    const std::string bytes(static_cast<const char *>(probe->data), probe->bytes);
    static_cast<SlotWrites *>(user)->by_slot[probe->slot].push_back({probe->layer, probe->visit, bytes});
  }
};

} // namespace

TEST_CASE("each visit of each layer has a KV slot of its own, in both orders") {
  const TempFolder folder;
  for (const spec::VisitOrder order : kOrders) {
    const spec::ModelSpec spec = looped(3, order);
    const std::string artifact = folder.file("looped.smelt");
    compileSpec(spec, {}, artifact);
    const RuntimeModel model(artifact, {goldenWeights()});
    RuntimeSession session(model);
    SlotWrites writes;
    smelt_session_set_probe(session.get(), SlotWrites::probe, &writes);
    session.append(randomTokens(48, 6, 3));

    REQUIRE(writes.by_slot.size() == static_cast<size_t>(spec.executedLayers()));
    std::set<std::string> contents;
    for (const auto &[slot, list] : writes.by_slot) {
      CAPTURE(slot);
      for (const SlotWrites::Write &write : list) { // keys and values
        CAPTURE(write.layer, write.visit);
        CHECK(slot == expectedSlot(write.layer, write.visit));
        contents.insert(write.keys);
      }
    }
    // No two slots hold the same.
    CHECK(contents.size() == 2 * writes.by_slot.size());
  }
}

TEST_CASE("kernels and code do not grow with visits or depth") {
  const TempFolder folder;
  const auto compiled = [&](const spec::ModelSpec &spec) {
    const std::string artifact = folder.file("size.smelt");
    compileSpec(spec, {}, artifact);
    smelt_artifact *opened = nullptr;
    REQUIRE(smelt_artifact_open(artifact.c_str(), &opened, nullptr) == SMELT_ok);
    smelt_artifact_info info;
    smelt_artifact_get_info(opened, &info);
    smelt_artifact_close(opened);
    return info;
  };
  const smelt_artifact_info base = compiled(looped(1, spec::VisitOrder::block));
  spec::ModelSpec deep = looped(4, spec::VisitOrder::block);
  for (spec::Segment &segment : deep.segments) {
    segment.layers *= 8;
  }
  const smelt_artifact_info larger = compiled(deep);
  CHECK(larger.kernel_count == base.kernel_count);
  CHECK(larger.code_size == base.code_size);
  CHECK(larger.calls_per_step > 8 * base.calls_per_step);
  CHECK(larger.file_size < base.file_size + 4096);
}
