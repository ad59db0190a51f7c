// Compiled logits against the interpreter on generated specs, for both precisions and every code variant.
#include "tests/e2e/Fixture.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/SpecGenerator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

using namespace smelt;
using namespace smelt::tests;

namespace {

struct Tolerance {
  double logits; // relative L2
  double router; // how close two scores must be, relative to the largest, for the choice to be open
};

constexpr Tolerance kF32{1e-5, 1e-5};
constexpr Tolerance kBf16{1e-2, 3e-2};

// The experts of a layer, visit and token are the interpreter's, or its scores for the ones that differ are
// as good as equal.
void requireSameChoice(const RoutingChoice &compiled, const ScoredChoice &expected, double tolerance) {
  CAPTURE(compiled.layer, compiled.visit, compiled.token, compiled.experts, expected.logits);
  std::vector<double> ordered = expected.logits;
  std::sort(ordered.begin(), ordered.end(), std::greater<>());
  const double largest = std::max(std::abs(ordered.front()), std::abs(ordered.back()));
  const double open = tolerance * std::max(largest, 1.0);
  const double last_chosen = ordered[compiled.experts.size() - 1];
  for (const int32_t expert : compiled.experts) {
    REQUIRE(expected.logits[expert] >= last_chosen - open);
  }
}

// The runtime may cut the tokens into steps, so its order may be another.
void requireSameRouting(const std::vector<RoutingChoice> &compiled, const std::vector<ScoredChoice> &expected,
                        double tolerance) {
  const auto place = [](const RoutingChoice &choice) {
    return std::tuple(choice.layer, choice.visit, choice.token);
  };
  std::map<std::tuple<int32_t, int32_t, uint64_t>, const ScoredChoice *> by_place;
  for (const ScoredChoice &choice : expected) {
    by_place[place(choice.choice)] = &choice;
  }
  REQUIRE(compiled.size() == expected.size());
  for (const RoutingChoice &choice : compiled) {
    REQUIRE(by_place.count(place(choice)) == 1);
    requireSameChoice(choice, *by_place.at(place(choice)), tolerance);
  }
}

// The interpreter follows the routing of the compiled model, so that one open choice does not hide everything
// after it; each choice must be the interpreter's own given what came before.
void compare(const spec::ModelSpec &spec, const Built &built, Precision precision,
             const std::vector<int32_t> &tokens) {
  const Tolerance tolerance = precision == Precision::f32 ? kF32 : kBf16;
  const InterpretedModel oracle(spec, built.weights, {precision, false});
  const RuntimeModel model = built.model();
  for (const std::string &isa : model.supportedIsas()) {
    CAPTURE(isa);
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
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    CAPTURE(spec.name, token_count, precision == Precision::bf16);
    const Built built = build(spec, {precision, false});
    compare(spec, built, precision, randomTokens(spec.vocab_size, token_count, token_count));
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
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const Built built = build(spec, {precision, false});
    for (const size_t count : {1, 7, 257}) {
      CAPTURE(count, precision == Precision::bf16);
      compare(spec, built, precision, randomTokens(spec.vocab_size, count, count));
    }
  }
}

TEST_CASE("every expert chosen agrees with the interpreter") {
  spec::ModelSpec spec = raggedSpec();
  for (const spec::RouterKind router : {spec::RouterKind::softmax, spec::RouterKind::sigmoid}) {
    spec.moe->top_k = spec.moe->experts;
    spec.moe->router = router;
    const Built built = build(spec);
    compare(spec, built, Precision::f32, randomTokens(spec.vocab_size, 19, 1));
  }
}
