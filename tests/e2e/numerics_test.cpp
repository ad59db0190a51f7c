// Compiled logits against the interpreter on generated specs, for every type of weights and code variant.
#include "tests/e2e/Fixture.h"
#include "tests/e2e/Routing.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/SpecGenerator.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace smelt;
using namespace smelt::tests;

namespace {

struct Tolerance {
  double logits; // relative L2
  double router; // how close two scores must be, relative to the largest, for the choice to be open
};

constexpr Tolerance kF32{1e-5, 1e-5};
constexpr Tolerance kBf16{1e-2, 3e-2};
// Rows that meet 8-bit weights are rounded to 16-bit integers.
constexpr Tolerance kI8{1e-3, 1e-3};
// f32 but for keys that f32 and double round to different neighbours in bf16.
constexpr Tolerance kBf16Cache{4e-5, 2e-3};

// Activations are rounded to bf16 where they meet bf16 weights in VDPBF16PS.
Tolerance toleranceOf(const CompileSettings &compiled, const std::string &isa) {
  if (compiled.precision == Precision::i8) {
    return kI8;
  }
  bool rounds = compiled.precision == Precision::bf16 && isa.ends_with("bf16");
  return rounds ? kBf16 : compiled.kv_cache == Precision::f32 ? kF32 : kBf16Cache;
}

// The interpreter follows the routing of the compiled model, so that one open choice does not hide everything
// after it; each choice must be the interpreter's own given what came before.
void compare(const spec::ModelSpec &spec, const Built &built, const CompileSettings &compiled,
             const std::vector<int32_t> &tokens) {
  const InterpretedModel oracle(spec, built.weights, compiled);
  const RuntimeModel model = built.model();
  for (const std::string &isa : model.supportedIsas()) {
    CAPTURE(isa);
    const Tolerance tolerance = toleranceOf(compiled, isa);
    SessionSettings settings;
    settings.isa = isa;
    RuntimeSession session(model, settings);
    std::vector<RoutingChoice> routing;
    session.recordRouting(routing, spec.moe ? spec.moe->top_k : 0);
    const Logits logits = session.append(tokens);

    const Interpretation expected = oracle.run(tokens, routing);
    requireSameRouting(routing, expected.routing, tolerance.router);
    REQUIRE(relativeL2(logits.values, expected.logits) <= tolerance.logits);
  }
}

void checkSpec(const spec::ModelSpec &spec, size_t token_count) {
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::i8}) {
    CAPTURE(spec.name, token_count, static_cast<int>(precision));
    const Built built = build(spec, {precision, false});
    compare(spec, built, {precision, false}, randomTokens(spec.vocab_size, token_count, token_count));
  }
}

} // namespace

namespace {

void checkSeeds(uint64_t begin, uint64_t end) {
  const size_t lengths[] = {1, 2, 15, 16, 17, 33, 64, 100};
  for (uint64_t seed = begin; seed < end; ++seed) {
    checkSpec(generateSpec(seed), lengths[seed % std::size(lengths)]);
  }
}

} // namespace

TEST_CASE("generated specs agree with the interpreter") { checkSeeds(0, 24); }

// Not run by ctest: e2e_numerics "[long]"
TEST_CASE("many generated specs agree with the interpreter", "[.][long]") { checkSeeds(24, 150); }

TEST_CASE("ragged sizes agree with the interpreter from one token to 257") {
  const spec::ModelSpec spec = raggedSpec();
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::i8}) {
    const Built built = build(spec, {precision, false});
    for (const size_t count : {1, 7, 257}) {
      CAPTURE(count, static_cast<int>(precision));
      compare(spec, built, {precision, false}, randomTokens(spec.vocab_size, count, count));
    }
  }
}

TEST_CASE("every expert chosen agrees with the interpreter") {
  spec::ModelSpec spec = raggedSpec();
  for (const spec::RouterKind router : {spec::RouterKind::softmax, spec::RouterKind::sigmoid}) {
    spec.moe->top_k = spec.moe->experts;
    spec.moe->router = router;
    const Built built = build(spec);
    compare(spec, built, {}, randomTokens(spec.vocab_size, 19, 1));
  }
}

TEST_CASE("keys and values cached in bf16 agree with an interpreter that rounds them, and with no other") {
  const spec::ModelSpec spec = raggedSpec();
  const CompileSettings half{.kv_cache = Precision::bf16};
  const Built built = build(spec, half);
  for (const size_t count : {1, 33, 130}) {
    CAPTURE(count);
    compare(spec, built, half, randomTokens(spec.vocab_size, count, count));
  }
  const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 33, 33);
  const Interpretation rounded = InterpretedModel(spec, built.weights, half).run(tokens);
  const Interpretation plain = InterpretedModel(spec, built.weights).run(tokens);
  REQUIRE(relativeL2(rounded.logits, plain.logits) > 2 * kBf16Cache.logits);
}
