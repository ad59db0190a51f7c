// The search against brute force over every point of small lattices.
#include "compiler/Planner/ShapeSearch.h"
#include "compiler/Planner/LoopPlacement.h"
#include "compiler/Spec/SpecValidator.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace smelt;
using namespace smelt::planner;

namespace {

spec::ModelSpec mixedBaseline() {
  spec::ModelSpec spec;
  spec.name = "mixed";
  spec.vocab_size = 100;
  spec.hidden_size = 48;
  spec.attention = {.query_heads = 4, .kv_heads = 2, .head_dim = 12, .qk_norm = spec::QkNorm::per_head};
  spec.moe = spec::Moe{.experts = 12,
                       .top_k = 3,
                       .expert_hidden_size = 32,
                       .shared_experts = 2,
                       .shared_expert_hidden_size = 24};
  spec.mlp = spec::Mlp{.hidden_size = 96};
  spec::Segment biased{.layers = 2, .ffn = spec::FfnKind::dense, .attention = spec.attention};
  biased.attention.qk_norm = spec::QkNorm::full_width;
  biased.attention.qkv_bias = true;
  spec.segments = {biased, {.layers = 6, .attention = spec.attention}};
  return spec;
}

spec::ModelSpec plainBaseline() {
  spec::ModelSpec spec = mixedBaseline();
  spec.attention.qk_norm = spec::QkNorm::none;
  spec.moe->shared_experts = spec.moe->shared_expert_hidden_size = 0;
  spec.mlp.reset();
  spec.segments = {{.layers = 7, .attention = spec.attention}};
  return spec;
}

ShapeLattice smallLattice() {
  return {.hidden_size = {8, 16, 64},
          .head_dim = {2, 4, 14},
          .expert_hidden_size = {8, 8, 56},
          .experts = {3, 3, 60},
          .max_query_heads = 8,
          .kv_heads = {1, 2}};
}

double relativeDifference(int64_t value, int64_t target) {
  return static_cast<double>(value - target) / static_cast<double>(target);
}

void everyPoint(const ShapeLattice &lattice, const std::function<void(const Shape &)> &visit) {
  const auto each = [](const Axis &axis, int64_t &value, const auto &next) {
    for (value = axis.first(); value <= axis.last(); value += axis.step) {
      next();
    }
  };
  Shape shape;
  for (int64_t kv_heads : lattice.kv_heads) {
    shape.kv_heads = kv_heads;
    each({kv_heads, 1, lattice.max_query_heads}, shape.query_heads, [&] {
      each(lattice.hidden_size, shape.hidden_size, [&] {
        each(lattice.head_dim, shape.head_dim, [&] {
          each(lattice.expert_hidden_size, shape.expert_hidden_size,
               [&] { each(lattice.experts, shape.experts, [&] { visit(shape); }); });
        });
      });
    });
  }
}

// The best match and the nearest point, by counting the budgets of every spec.
SearchResult bruteForce(const SearchRequest &request) {
  SearchResult result;
  const Shape reference = shapeOf(*request.baseline);
  everyPoint(request.lattice, [&](const Shape &shape) {
    const budget::Budget budget =
        *budget::computeBudget(applyShape(*request.looped, shape), request.attended).budget;
    RankedShape ranked{.shape = shape};
    ranked.residuals = {
        relativeDifference(budget.training_flops_per_token, request.target.training_flops_per_token),
        relativeDifference(budget.non_embedding_params, request.target.non_embedding_params),
        relativeDifference(budget.kv_elements_per_token, request.target.kv_elements_per_token)};
    ranked.shape_distance = shapeDistance(shape, reference);
    ranked.score = ranked.shape_distance + kResidualWeight * ranked.residuals.sum();
    if (ranked.residuals.worst() <= request.tolerance &&
        (result.matches.empty() || ranked < result.matches[0])) {
      result.matches = {ranked};
    }
    if (!result.nearest ||
        std::tuple(ranked.residuals.sum(), ranked.score, ranked.shape) <
            std::tuple(result.nearest->residuals.sum(), result.nearest->score, result.nearest->shape)) {
      result.nearest = ranked;
    }
  });
  return result;
}

void compare(const spec::ModelSpec &baseline, const ShapeLattice &lattice, double tolerance,
             budget::Attended attended) {
  REQUIRE(spec::validate(baseline).empty());
  const LoopedResult looped = loopMiddle(baseline, 0.5, 2);
  REQUIRE(looped.spec);
  const SearchRequest request{.baseline = &baseline,
                              .looped = &*looped.spec,
                              .target = *budget::computeBudget(baseline, attended).budget,
                              .attended = attended,
                              .lattice = lattice,
                              .tolerance = tolerance,
                              .keep = 3};
  const SearchResult found = searchShapes(request);
  const SearchResult expected = bruteForce(request);
  CAPTURE(tolerance);
  REQUIRE(found.matches.empty() == expected.matches.empty());
  if (expected.matches.empty()) {
    REQUIRE(found.nearest);
    CHECK(found.nearest->shape == expected.nearest->shape);
    CHECK(found.nearest->residuals.sum() == Approx(expected.nearest->residuals.sum()));
    return;
  }
  CHECK(found.matches[0].shape == expected.matches[0].shape);
  CHECK(found.matches[0].score == Approx(expected.matches[0].score));
  CHECK(found.matches[0].residuals.worst() <= tolerance);
  for (size_t i = 1; i < found.matches.size(); ++i) {
    CHECK(found.matches[i - 1] < found.matches[i]);
  }
}

} // namespace

TEST_CASE("the search finds what brute force finds") {
  for (const double tolerance : {0.3, 0.1, 0.03, 0.01, 0.001}) {
    compare(plainBaseline(), smallLattice(), tolerance, budget::Attended());
    compare(mixedBaseline(), smallLattice(), tolerance, *budget::Attended::parse("16.5"));
  }
}

TEST_CASE("the search finds what brute force finds when a budget is out of reach") {
  ShapeLattice coarse = smallLattice();
  coarse.head_dim = {10, 10, 20};
  compare(plainBaseline(), coarse, 0.01, budget::Attended());
  ShapeLattice few_experts = smallLattice();
  few_experts.experts = {1, 3, 5};
  compare(mixedBaseline(), few_experts, 0.02, budget::Attended());
}

TEST_CASE("widths that are not searched keep their proportion") {
  const spec::ModelSpec spec = applyShape(mixedBaseline(), {.hidden_size = 36,
                                                            .query_heads = 6,
                                                            .kv_heads = 2,
                                                            .head_dim = 8,
                                                            .expert_hidden_size = 48,
                                                            .experts = 20});
  CHECK(spec.mlp->hidden_size == 72);
  CHECK(spec.moe->shared_expert_hidden_size == 40); // 36 to the nearest multiple of 8, halves up
  CHECK(spec.segments[0].attention.query_heads == 6);
  CHECK(spec.segments[0].attention.qkv_bias);
  CHECK(shapeDistance(shapeOf(mixedBaseline()), shapeOf(mixedBaseline())) == 0.0);
}

TEST_CASE("an axis holds the multiples of its step in its range") {
  CHECK(Axis{8, 9, 30}.first() == 16);
  CHECK(Axis{8, 9, 30}.last() == 24);
  CHECK(Axis{8, 16, 16}.first() == 16);
}
