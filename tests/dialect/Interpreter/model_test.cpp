// Whole models: properties that hold whatever the weights are.
#include "dialect/Interpreter/Interpreter.h"
#include "tests/dialect/Interpreter/HashedWeights.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

#include <limits>
#include <map>

using namespace mlir;
using namespace mlir::smelt;
using namespace mlir::smelt::interpreter;
using ::smelt::tests::HashedWeights;

namespace {

// A model of one MoE layer kind: `segments` is its forward between %x0 and the last value, %x.
std::string modelText(const std::string &segments) {
  return R"(
smelt.model @m vocab_size(11) hidden_size(6) {
  smelt.weight @embedding : tensor<11x6xf32> from("e")
  smelt.weight @an : tensor<6xf32> from("{layer}.an") layers(0 to 4)
  smelt.weight @q : tensor<8x6xf32> from("{layer}.q") layers(0 to 4)
  smelt.weight @k : tensor<4x6xf32> from("{layer}.k") layers(0 to 4)
  smelt.weight @v : tensor<4x6xf32> from("{layer}.v") layers(0 to 4)
  smelt.weight @o : tensor<6x8xf32> from("{layer}.o") layers(0 to 4)
  smelt.weight @fn : tensor<6xf32> from("{layer}.fn") layers(0 to 4)
  smelt.weight @r : tensor<5x6xf32> from("{layer}.r") layers(0 to 4)
  smelt.weight @u : tensor<6x6xf32> from("{layer}.{expert}.u") layers(0 to 4) experts(5)
  smelt.forward {
  ^bb0(%tokens: tensor<?xi32>):
    %x0 = smelt.embed %tokens, @embedding : tensor<?xi32> -> tensor<?x6xf32>
)" + segments +
         R"(
    %logits = smelt.lm_head %x, @embedding : tensor<?x6xf32> -> tensor<?x11xf32>
    smelt.return %logits : tensor<?x11xf32>
  }
})";
}

std::string attentionOps = R"(
      %a = smelt.rms_norm %h, @an eps(1.0e-6) : tensor<?x6xf32>
      %q = smelt.linear %a, @q : tensor<?x6xf32> -> tensor<?x8xf32>
      %k = smelt.linear %a, @k : tensor<?x6xf32> -> tensor<?x4xf32>
      %v = smelt.linear %a, @v : tensor<?x6xf32> -> tensor<?x4xf32>
      %qr = smelt.rope %q heads(2) theta(1.0e2) : tensor<?x8xf32>
      %kr = smelt.rope %k heads(1) theta(1.0e2) : tensor<?x4xf32>
      %at = smelt.attention %qr, %kr, %v query_heads(2) kv_heads(1) head_dim(4) : tensor<?x8xf32>, tensor<?x4xf32>
)";
std::string outputOps = R"(
      %o = smelt.linear %at, @o : tensor<?x8xf32> -> tensor<?x6xf32>
      %h1 = smelt.residual_add %h, %o scale(0.5) : tensor<?x6xf32>
)";
std::string fusedOutputOps = R"(
      %h1 = smelt.fused role("linear_residual")(%at, %h) : (tensor<?x8xf32>, tensor<?x6xf32>) -> tensor<?x6xf32> {
      ^bb0(%in: tensor<?x8xf32>, %to: tensor<?x6xf32>):
        %o = smelt.linear %in, @o : tensor<?x8xf32> -> tensor<?x6xf32>
        %sum = smelt.residual_add %to, %o scale(0.5) : tensor<?x6xf32>
        smelt.yield %sum : tensor<?x6xf32>
      }
)";
std::string ffnOps = R"(
      %f = smelt.rms_norm %h1, @fn eps(1.0e-6) : tensor<?x6xf32>
      %rl = smelt.linear %f, @r : tensor<?x6xf32> -> tensor<?x5xf32>
      %i, %w = smelt.route %rl top_k(2) router(softmax) renormalize : tensor<?x5xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
      %y = smelt.expert_linear %f, %i, @u : tensor<?x6xf32>, tensor<?x2xi32> -> tensor<?x2x6xf32>
      %g = smelt.swiglu %y, %y : tensor<?x2x6xf32>
      %c = smelt.combine %g, %w : tensor<?x2x6xf32>, tensor<?x2xf32> -> tensor<?x6xf32>
      %h2 = smelt.residual_add %h1, %c scale(0.5) : tensor<?x6xf32>
)";

struct SegmentText {
  int first, end, visits, kvBase;
  std::string order = "block";
  bool fused = false;
};

// The segments in a row, from %x0 to %x.
std::string segmentsText(const std::vector<SegmentText> &segments) {
  std::string text;
  for (size_t i = 0; i < segments.size(); ++i) {
    const SegmentText &s = segments[i];
    text += "    %x" + (i + 1 == segments.size() ? std::string() : std::to_string(i + 1)) +
            " = smelt.segment %x" + std::to_string(i) + " layers(" + std::to_string(s.first) + " to " +
            std::to_string(s.end) + ") visits(" + std::to_string(s.visits) + ") order(" + s.order +
            ") kv(per_visit) kv_base(" + std::to_string(s.kvBase) +
            ") : tensor<?x6xf32> {\n    ^bb0(%h: tensor<?x6xf32>):" + attentionOps +
            (s.fused ? fusedOutputOps : outputOps) + ffnOps +
            "      smelt.yield %h2 : tensor<?x6xf32>\n    }\n";
  }
  return text;
}

struct Run {
  Tensor logits;
  std::vector<Routing> routings;
  std::vector<std::string> diagnostics;
  bool ok = false;
};

Run run(const std::string &text, const std::vector<int32_t> &tokens, WeightSource &weights,
        Options options = {}) {
  Run result;
  MLIRContext context;
  context.loadDialect<SmeltDialect>();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    result.diagnostics.push_back(diagnostic.str());
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  INFO(text << (result.diagnostics.empty() ? "" : result.diagnostics[0]));
  REQUIRE(module);
  options.onRouting = [&](const Routing &routing) { result.routings.push_back(routing); };
  FailureOr<Tensor> logits = interpret(*module->getOps<ModelOp>().begin(), weights, tokens, options);
  result.ok = succeeded(logits);
  if (result.ok) {
    result.logits = std::move(*logits);
  }
  return result;
}

Run run(const std::string &text, const std::vector<int32_t> &tokens, const Options &options = {}) {
  HashedWeights weights;
  return run(text, tokens, weights, options);
}

const std::vector<int32_t> kTokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 10, 0};

std::vector<int64_t> slots(const Run &run) {
  std::vector<int64_t> result;
  for (const Routing &routing : run.routings) {
    result.push_back(routing.place.slot);
  }
  return result;
}

} // namespace

TEST_CASE("a segment runs what its unrolled forms run, bit for bit") {
  Run looped = run(modelText(segmentsText({{0, 1, 1, 0}, {1, 3, 3, 1}, {3, 4, 2, 7}})), kTokens);
  Run visits = run(modelText(segmentsText(
                       {{0, 1, 1, 0}, {1, 3, 1, 1}, {1, 3, 1, 3}, {1, 3, 1, 5}, {3, 4, 1, 7}, {3, 4, 1, 8}})),
                   kTokens);
  Run layers = run(modelText(segmentsText({{0, 1, 1, 0},
                                           {1, 2, 1, 1},
                                           {2, 3, 1, 2},
                                           {1, 2, 1, 3},
                                           {2, 3, 1, 4},
                                           {1, 2, 1, 5},
                                           {2, 3, 1, 6},
                                           {3, 4, 1, 7},
                                           {3, 4, 1, 8}})),
                   kTokens);
  REQUIRE(looped.logits.shape == std::vector<int64_t>{13, 11});
  CHECK(looped.logits.values == visits.logits.values);
  CHECK(looped.logits.values == layers.logits.values);
  CHECK(slots(looped) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(slots(looped) == slots(layers));
}

TEST_CASE("layer order runs each layer's visits in a row, in the same slots") {
  Run looped = run(modelText(segmentsText({{1, 3, 2, 4, "layer"}})), kTokens);
  Run unrolled =
      run(modelText(segmentsText({{1, 2, 1, 4}, {1, 2, 1, 6}, {2, 3, 1, 5}, {2, 3, 1, 7}})), kTokens);
  Run block = run(modelText(segmentsText({{1, 3, 2, 4, "block"}})), kTokens);
  CHECK(looped.logits.values == unrolled.logits.values);
  CHECK(looped.logits.values != block.logits.values);
  CHECK(slots(looped) == std::vector<int64_t>{4, 6, 5, 7});
  std::vector<std::pair<int64_t, int64_t>> layersAndVisits;
  for (const Routing &routing : looped.routings) {
    layersAndVisits.emplace_back(routing.place.layer, routing.place.visit);
  }
  CHECK(layersAndVisits == std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {1, 1}, {2, 0}, {2, 1}});
}

TEST_CASE("every visit counts") {
  Run one = run(modelText(segmentsText({{0, 2, 1, 0}})), kTokens);
  Run two = run(modelText(segmentsText({{0, 2, 2, 0}})), kTokens);
  Run three = run(modelText(segmentsText({{0, 2, 3, 0}})), kTokens);
  CHECK(one.logits.values != two.logits.values);
  CHECK(two.logits.values != three.logits.values);
}

TEST_CASE("a fused op computes what its body computes, bit for bit") {
  Run plain = run(modelText(segmentsText({{0, 3, 2, 0, "block", false}})), kTokens);
  Run fused = run(modelText(segmentsText({{0, 3, 2, 0, "block", true}})), kTokens);
  CHECK(plain.logits.values == fused.logits.values);
}

TEST_CASE("logits depend on the past alone, bit for bit") {
  std::string text = modelText(segmentsText({{0, 2, 2, 0}, {2, 4, 1, 4}}));
  Run full = run(text, kTokens);
  for (size_t length : {size_t(1), size_t(2), kTokens.size() - 1}) {
    Run prefix = run(text, {kTokens.begin(), kTokens.begin() + length});
    CHECK(std::vector<double>(full.logits.values.begin(), full.logits.values.begin() + length * 11) ==
          prefix.logits.values);
  }
  std::vector<int32_t> changed = kTokens;
  changed[5] = 7;
  Run other = run(text, changed);
  auto row = [](const Run &r, int64_t t) {
    return std::vector<double>(r.logits.row(t), r.logits.row(t) + 11);
  };
  for (int64_t t = 0; t < 13; ++t) {
    INFO("token " << t);
    CHECK((row(full, t) == row(other, t)) == (t < 5));
  }
}

TEST_CASE("a model reads the weights of its physical layers, and of no others") {
  HashedWeights weights;
  REQUIRE(run(modelText(segmentsText({{1, 3, 2, 0}})), kTokens, weights).ok);
  CHECK(weights.names.count("e") == 1);
  CHECK(weights.names.count("1.q") == 1);
  CHECK(weights.names.count("2.q") == 1);
  CHECK(weights.names.count("0.q") == 0);
  CHECK(weights.names.count("3.q") == 0);
}

TEST_CASE("routing is reported for each executed layer and token") {
  Run result = run(modelText(segmentsText({{0, 2, 2, 0}})), kTokens);
  REQUIRE(result.routings.size() == 4);
  for (const Routing &routing : result.routings) {
    REQUIRE(routing.logits.shape == std::vector<int64_t>{13, 5});
    REQUIRE(routing.indices.shape == std::vector<int64_t>{13, 2});
    REQUIRE(routing.gaps.size() == 13);
    for (int64_t t = 0; t < 13; ++t) {
      const double *logits = routing.logits.row(t), *chosen = routing.indices.row(t);
      double second = logits[int(chosen[1])], third = -std::numeric_limits<double>::infinity();
      for (int e = 0; e < 5; ++e) {
        if (e != chosen[0] && e != chosen[1]) {
          third = std::max(third, logits[e]);
        }
      }
      CHECK(logits[int(chosen[0])] >= second);
      CHECK(routing.gaps[t] == second - third);
      CHECK(routing.gaps[t] >= 0);
      CHECK(routing.weights.row(t)[0] + routing.weights.row(t)[1] == Approx(1));
    }
  }
}

TEST_CASE("forced experts replace the choice, where they are given") {
  std::string text = modelText(segmentsText({{0, 2, 2, 0}}));
  Run own = run(text, kTokens);
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> chosen;
  for (const Routing &routing : own.routings) {
    for (int64_t t = 0; t < 13; ++t) {
      chosen[{routing.place.slot, t}] = {int(routing.indices.row(t)[0]), int(routing.indices.row(t)[1])};
    }
  }
  Options options;
  options.forcedExperts = [&](const Place &place, int64_t token) { return chosen.at({place.slot, token}); };
  CHECK(run(text, kTokens, options).logits.values == own.logits.values);

  std::vector<int32_t> &changed = chosen.at({3, 12});
  std::vector<int32_t> others;
  for (int32_t expert = 0; expert < 5; ++expert) {
    if (expert != changed[0] && expert != changed[1]) {
      others.push_back(expert);
    }
  }
  changed = {others[0], others[1]};
  Run forced = run(text, kTokens, options);
  CHECK(forced.routings.back().indices.row(12)[0] == others[0]);
  CHECK(forced.routings.back().gaps[12] < 0);
  CHECK(std::vector<double>(forced.logits.row(0), forced.logits.row(12)) ==
        std::vector<double>(own.logits.row(0), own.logits.row(12)));
  CHECK(std::vector<double>(forced.logits.row(12), forced.logits.row(12) + 11) !=
        std::vector<double>(own.logits.row(12), own.logits.row(12) + 11));

  options.forcedExperts = [](const Place &, int64_t) { return std::vector<int32_t>(); };
  CHECK(run(text, kTokens, options).logits.values == own.logits.values);
}

TEST_CASE("values are reported as they are computed") {
  int segmentInputs = 0;
  Options options;
  options.onValue = [&](Value value, const Place &place, const Tensor &tensor) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && isa<SegmentOp>(argument.getOwner()->getParentOp())) {
      CHECK(place.slot == segmentInputs);
      CHECK(tensor.shape == std::vector<int64_t>{13, 6});
      ++segmentInputs;
    }
  };
  run(modelText(segmentsText({{0, 2, 3, 0}})), kTokens, options);
  CHECK(segmentInputs == 6);
}

TEST_CASE("what cannot be interpreted is refused with a reason") {
  std::string text = modelText(segmentsText({{0, 1, 1, 0}}));
  auto reason = [](const Run &result) { return result.diagnostics.empty() ? "" : result.diagnostics[0]; };
  SECTION("no token") {
    CHECK(reason(run(text, {})) == "'smelt.model' op needs at least one token to interpret");
  }
  SECTION("a token outside the vocabulary") {
    CHECK(reason(run(text, {1, 11})) == "'smelt.model' op has a vocabulary of 11 tokens, got token 11");
    CHECK(reason(run(text, {-1})) == "'smelt.model' op has a vocabulary of 11 tokens, got token -1");
  }
  SECTION("no forward") {
    CHECK(reason(run("smelt.model @m vocab_size(2) hidden_size(2) {}", {1})) ==
          "'smelt.model' op has no smelt.forward to interpret");
  }
  SECTION("a missing weight, also of an expert") {
    struct Missing : HashedWeights {
      std::string missing;
      std::optional<std::vector<double>> read(const std::string &name, const std::vector<int64_t> &shape,
                                              WeightElement element, std::string &error) override {
        error = "it is not there";
        return name == missing ? std::nullopt : HashedWeights::read(name, shape, element, error);
      }
    } weights;
    weights.missing = "0.q";
    CHECK(reason(run(text, kTokens, weights)) ==
          "'smelt.linear' op cannot read weight '0.q': it is not there");
    weights.missing = "0.3.u";
    CHECK(reason(run(text, kTokens, weights)) ==
          "'smelt.expert_linear' op cannot read weight '0.3.u': it is not there");
  }
  SECTION("forced experts that do not fit") {
    Options options;
    for (std::vector<int32_t> experts : {std::vector<int32_t>{1}, {1, 1}, {1, 5}, {-1, 2}}) {
      options.forcedExperts = [=](const Place &, int64_t) { return experts; };
      CHECK(reason(run(text, {1}, options)) ==
            "'smelt.route' op needs 2 different experts below 5 for token 0, but other ones were forced");
    }
  }
}
