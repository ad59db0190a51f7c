// Passes at the tensor level keep every bit of what the interpreter computes.
#include "dialect/Interpreter/Interpreter.h"
#include "tests/compiler/Lowering/LoweredModel.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>

#include <random>

namespace smelt::tests {
namespace {

using namespace mlir::smelt::interpreter;

// Normal weights that depend on the tensor's name alone.
class NamedWeights : public WeightSource {
public:
  std::optional<std::vector<double>> read(const std::string &name, const std::vector<int64_t> &shape,
                                          WeightElement, std::string &) override {
    std::seed_seq seed(name.begin(), name.end());
    std::mt19937_64 engine(seed);
    std::normal_distribution<float> normal(0, 0.3f);
    size_t size = 1;
    for (int64_t extent : shape) {
      size *= extent;
    }
    std::vector<double> values(size);
    for (double &value : values) {
      value = normal(engine);
    }
    return values;
  }
};

std::vector<double> logits(const spec::ModelSpec &spec, const LoweringSettings &settings) {
  LoweredModel lowered(spec, settings);
  NamedWeights weights;
  const std::vector<int32_t> tokens = {1, 5, 2, 7, 7};
  auto result = interpret(lowered.model(), weights, tokens);
  REQUIRE(mlir::succeeded(result));
  return result->values;
}

} // namespace

TEST_CASE("fusing, planning and unrolling keep every bit") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    const spec::ModelSpec spec = generateSpec(seed);
    const std::vector<double> expected = logits(spec, {.last_phase = "build"});
    CHECK(logits(spec, {.last_phase = "canonicalize"}) == expected);
    CHECK(logits(spec, {.last_phase = "fuse"}) == expected);
    CHECK(logits(spec, {.last_phase = "plan-memory"}) == expected);
    CHECK(logits(spec, {.last_phase = "build", .unroll_visits = true}) == expected);
    CHECK(logits(spec, {.last_phase = "fuse", .unroll_visits = true}) == expected);
  }
}

} // namespace smelt::tests
