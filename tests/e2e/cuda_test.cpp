// Artifacts on a GPU, executed by the look-alike driver of tests/support/cuda, against the interpreter.
#include "tests/e2e/Fixture.h"
#include "tests/e2e/Routing.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>
#include <algorithm>
#include <cstdlib>

using namespace smelt;
using namespace smelt::tests;

namespace {

constexpr double LOGIT_TOLERANCE = 1e-2; // relative L2
constexpr double ROUTER_TOLERANCE = 3e-2;

CompileSettings forCuda(bool unroll = false) { return {Precision::bf16, unroll, {"cuda:sm_80"}}; }

SessionSettings onCuda(uint32_t max_step_tokens = 0) {
  SessionSettings settings;
  settings.device = "cuda:0";
  settings.max_step_tokens = max_step_tokens;
  return settings;
}

// The look-alike driver, unless the caller has named another: a real one, on a machine that has it.
const int chosen = setenv("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA_LIBRARY, 0);

// Logits of a prompt run at once (the program of any length), and of its beginning token by token and in eights
// (the one of short steps), all with the interpreter following the routing.
void compare(const spec::ModelSpec &spec, size_t token_count) {
  constexpr size_t beginning = 12;
  CAPTURE(spec.name, token_count);
  const Built built = build(spec, forCuda());
  const InterpretedModel oracle(spec, built.weights, {Precision::bf16, false});
  const RuntimeModel model = built.model();
  const std::vector<int32_t> prompt = randomTokens(spec.vocab_size, token_count, token_count);
  for (const uint32_t step : {0u, 1u, 8u}) {
    CAPTURE(step);
    const size_t count = step ? std::min(beginning, prompt.size()) : prompt.size();
    const std::vector<int32_t> tokens(prompt.begin(), prompt.begin() + ptrdiff_t(count));
    RuntimeSession session(model, onCuda(step));
    std::vector<RoutingChoice> routing;
    session.recordRouting(routing, spec.moe ? spec.moe->top_k : 0);
    const Logits logits = session.append(tokens);
    const Interpretation expected = oracle.run(tokens, routing);
    requireSameRouting(routing, expected.routing, ROUTER_TOLERANCE);
    REQUIRE(relativeL2(logits.values, expected.logits) <= LOGIT_TOLERANCE);
  }
}

} // namespace

TEST_CASE("generated specs agree with the interpreter on a GPU") {
  const size_t lengths[] = {1, 9, 17, 33, 41, 12};
  for (uint64_t seed = 0; seed < 8; ++seed) {
    compare(generateSpec(seed), lengths[seed % std::size(lengths)]);
  }
}

TEST_CASE("ragged sizes agree with the interpreter on a GPU") { compare(raggedSpec(), 21); }

TEST_CASE("loops and straight-line code give the same bits on a GPU") {
  const spec::ModelSpec spec = goldenSpec("qwen3-moe-looped");
  const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 11, 3);
  const Built looped = build(spec, forCuda()), unrolled = build(spec, forCuda(true));
  for (const uint32_t step : {0u, 1u}) {
    RuntimeSession first(looped.model(), onCuda(step)), second(unrolled.model(), onCuda(step));
    REQUIRE(first.append(tokens).values == second.append(tokens).values);
  }
}

TEST_CASE("a token's logits on a GPU do not depend on the other sequences of the step") {
  const spec::ModelSpec spec = raggedSpec();
  const RuntimeModel model = build(spec, forCuda()).model();
  // One program for both runs, and one step: more than 8 tokens.
  const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 9, 5);
  SessionSettings settings = onCuda();
  RuntimeSession alone(model, settings);
  const Logits expected = alone.append(tokens);
  settings.sequences = 3;
  RuntimeSession mixed(model, settings);
  std::vector<PlacedToken> placed;
  std::vector<size_t> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back(placed.size());
    placed.push_back({2, tokens[i]});
    if (i % 2 == 0) {
      placed.push_back({0, tokens[tokens.size() - 1 - i]});
    }
  }
  const Logits both = mixed.append(placed);
  for (size_t i = 0; i < tokens.size(); ++i) {
    CAPTURE(i);
    REQUIRE(both.row(rows[i]) == expected.row(i));
  }
}

TEST_CASE("a step on a GPU may want no logits") {
  const spec::ModelSpec spec = goldenSpec("qwen3-moe-looped");
  const RuntimeModel model = build(spec, forCuda()).model();
  for (const size_t count : {size_t(5), size_t(12)}) { // of short steps, and of any
    CAPTURE(count);
    std::vector<int32_t> tokens = randomTokens(spec.vocab_size, count, 7);
    RuntimeSession silent(model, onCuda()), asked(model, onCuda());
    smelt_step step = {};
    step.tokens = tokens.data();
    step.token_count = tokens.size();
    char *error = nullptr;
    const smelt_status status = smelt_session_forward(silent.get(), &step, nullptr, &error);
    CAPTURE(error ? error : "");
    REQUIRE(status == SMELT_ok);
    asked.append(tokens);
    const std::vector<int32_t> next = {3, 1};
    REQUIRE(silent.append(next).values == asked.append(next).values);
  }
}
