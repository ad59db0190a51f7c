// Models with 8-bit weights: where the weights may come from, and how far logits move.
#include "tests/e2e/Fixture.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>

using namespace smelt;
using namespace smelt::tests;

namespace {

// What docs/quantization.md promises of random models, whatever experts are chosen.
constexpr double kMostMoved = 2e-2; // relative L2

std::vector<float> logitsOf(const std::string &artifact, const std::string &weights) {
  const RuntimeModel model(artifact, {weights});
  RuntimeSession session(model);
  return session.append(randomTokens(model.info().vocab_size, 19, 1)).values;
}

} // namespace

TEST_CASE("weights quantised when they are loaded are those of weights quantize, to the last bit") {
  for (const spec::ModelSpec &spec : {raggedSpec(), generateSpec(5)}) {
    const std::string artifact = build(spec, {Precision::i8, false}).artifact;
    for (const Precision stored : {Precision::f32, Precision::bf16}) {
      CAPTURE(spec.name, stored == Precision::bf16);
      const std::string plain = randomWeights(spec, stored, 3), quantized = quantizedWeights(plain);
      REQUIRE(logitsOf(artifact, plain) == logitsOf(artifact, quantized));
      const RuntimeModel from_plain(artifact, {plain}), from_quantized(artifact, {quantized});
      CHECK(smelt_weights_unquantized(from_plain.weights()) > 0);
      CHECK(smelt_weights_unquantized(from_quantized.weights()) == 0);
      CHECK(from_plain.info().weights_dtype == SMELT_DTYPE_I8);
    }
  }
}

// Against the interpreter on the f32 weights, which follows the routing of the 8-bit model: how far logits
// move when another expert runs is a matter of the model.
TEST_CASE("logits of 8-bit weights stay close to those of the f32 weights they were made of") {
  std::vector<spec::ModelSpec> specs = {raggedSpec()};
  for (uint64_t seed = 0; seed < 12; ++seed) {
    specs.push_back(generateSpec(seed));
  }
  for (const spec::ModelSpec &spec : specs) {
    CAPTURE(spec.name);
    const std::string artifact = build(spec, {Precision::i8, false}).artifact;
    const std::string plain = randomWeights(spec, Precision::f32, 7);
    const RuntimeModel model(artifact, {plain});
    RuntimeSession session(model);
    std::vector<RoutingChoice> routing;
    session.recordRouting(routing, spec.moe ? spec.moe->top_k : 0);
    const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 33, 2);
    const Logits logits = session.append(tokens);
    const InterpretedModel oracle(spec, plain, {Precision::f32, false});
    const double moved = relativeL2(logits.values, oracle.run(tokens, routing).logits);
    CHECK(moved <= kMostMoved);
    CHECK(moved > 1e-4); // it is 8 bits that ran
  }
}
