// The step program computes what the fused forward computes: buffers are reused only when their last reader
// is done, layers use their own weights and slots, and the loop runs in order.
#include "tests/compiler/Lowering/Trace.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>

namespace smelt::tests {

static uint64_t fusedTrace(const spec::ModelSpec &spec, bool unroll) {
  LoweredModel lowered(spec, {.last_phase = "choose-layouts", .unroll_visits = unroll});
  return traceForward(lowered.model());
}

static uint64_t programTrace(const spec::ModelSpec &spec, bool unroll) {
  LoweredModel lowered(spec, {.unroll_visits = unroll});
  return traceProgram(lowered.model());
}

TEST_CASE("programs of random specs follow the fused forward, looped and unrolled") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const spec::ModelSpec spec = generateSpec(seed);
    const uint64_t expected = fusedTrace(spec, false);
    CHECK(programTrace(spec, false) == expected);
    CHECK(fusedTrace(spec, true) == expected);
    CHECK(programTrace(spec, true) == expected);
  }
}

TEST_CASE("programs of shipped specs follow the fused forward") {
  for (const spec::ModelSpec &spec : shippedSpecs()) {
    INFO(spec.name);
    CHECK(programTrace(spec, false) == fusedTrace(spec, false));
  }
}

TEST_CASE("the trace tells different networks apart") {
  const spec::ModelSpec spec = smallSpec();
  auto differs = [&](auto change) {
    spec::ModelSpec changed = spec;
    change(changed);
    return programTrace(changed, false) != programTrace(spec, false);
  };
  CHECK(differs([](auto &s) { s.segments[1].order = spec::VisitOrder::layer; }));
  CHECK(differs([](auto &s) { s.segments[1].visits = 3; }));
  CHECK(differs([](auto &s) { s.segments[1].residual_scale = 0.25; }));
  CHECK(differs([](auto &s) { s.segments[0].attention.rope_theta = 500; }));
  CHECK(differs([](auto &s) { s.tie_embeddings = true; }));
}

} // namespace smelt::tests
