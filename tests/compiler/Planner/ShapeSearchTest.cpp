// The search against brute force over every point of small lattices.
#include "compiler/Planner/ShapeSearch.h"

#include "compiler/Planner/LoopPlacement.h"
#include "compiler/Spec/SpecValidator.h"
#include "tests/compiler/Planner/BruteForce.h"

#include <catch2/catch.hpp>
#include <deque>

using namespace smelt;
using namespace smelt::planner;
using tests::mixedBaseline;
using tests::plainBaseline;

namespace {

// A request with what it points to.
struct Case {
  Baseline baseline;
  std::deque<budget::Architecture> looped;
  SearchRequest request;

  explicit Case(Baseline model, budget::Attended attended = {}) : baseline(std::move(model)) {
    REQUIRE((!baseline.spec || spec::validate(*baseline.spec).empty()));
    REQUIRE(checkBaseline(baseline) == "");
    request.baseline = &baseline;
    request.attended = attended;
    request.target = *budget::computeBudget(baseline.architecture, attended).budget;
    request.lattice = {.hidden_size = {8, 16, 64},
                       .expert_hidden_size = {8, 8, 56},
                       .experts = {3, 3, 60},
                       .query_heads = {1, 1, 8},
                       .top_k = {1, 3, 3}};
  }
  Case(const Case &) = delete;

  Case &loop(double span, int64_t visits, std::vector<KvChoice> choices) {
    looped.push_back(
        *loopedModel(baseline, physicalLayers(baseline.architecture), span, visits).architecture);
    request.loops.push_back({.looped = &looped.back(), .visits = visits, .kv_choices = std::move(choices)});
    return *this;
  }
};

void checkEqual(const std::vector<RankedShape> &found, const std::vector<RankedShape> &expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].shape == expected[i].shape);
    CHECK(found[i].loop == expected[i].loop);
    CHECK(found[i].score == expected[i].score);
    CHECK(found[i].worst == expected[i].worst);
    CHECK(found[i].shape_distance == expected[i].shape_distance);
    CHECK(found[i].fit == expected[i].fit);
  }
}

void compare(Case &test, const Targets &targets) {
  SearchRequest &request = test.request;
  request.targets = targets;
  const std::pair<Goal, std::vector<RankedShape>> expected[] = {{Goal::best, tests::bruteBest(request)},
                                                                {Goal::nearest, tests::bruteNearest(request)},
                                                                {Goal::front, tests::bruteFront(request)}};
  for (const unsigned threads : {1u, 3u}) {
    request.threads = threads;
    CAPTURE(threads);
    for (const auto &[goal, points] : expected) {
      request.goal = goal;
      checkEqual(searchShapes(request), points);
    }
  }
}

const Axis kSmallHeads{2, 4, 14};

} // namespace

TEST_CASE("the search finds what brute force finds") {
  for (const double tolerance : {0.3, 0.1, 0.03, 0.01, 0.001}) {
    CAPTURE(tolerance);
    Case plain(plainBaseline());
    compare(plain.loop(0.5, 2, uniformKvChoices({1, 1, 2}, kSmallHeads)), Targets::within(tolerance));
    Case mixed(mixedBaseline(), *budget::Attended::parse("16.5"));
    compare(mixed.loop(0.5, 2, uniformKvChoices({1, 1, 2}, kSmallHeads)), Targets::within(tolerance));
  }
}

TEST_CASE("the search finds what brute force finds with KV heads per segment") {
  for (const double tolerance : {0.2, 0.02}) {
    CAPTURE(tolerance);
    Case exact(mixedBaseline());
    compare(exact.loop(0.5, 2, exactKvChoices(24, 2, kSmallHeads)), Targets::within(tolerance));
    Case any(plainBaseline());
    compare(any.loop(0.5, 2, perSegmentKvChoices({1, 1, 3}, {1, 1, 2}, {4, 4, 12})),
            Targets::within(tolerance));
  }
}

TEST_CASE("the search finds what brute force finds with latent attention behind a dense layer") {
  for (const double tolerance : {0.3, 0.05, 0.01}) {
    CAPTURE(tolerance);
    Case uniform(tests::latentBaseline(), *budget::Attended::parse("16.5"));
    uniform.request.lattice.experts = {2, 3, 60};
    compare(uniform.loop(0.5, 2, rankChoices({2, 2, 16}, kSameRank, 12)), Targets::within(tolerance));
    Case exact(tests::latentBaseline());
    const std::vector<KvChoice> choices = exactRankChoices(16, 4, 2, 12);
    CHECK(choices == std::vector<KvChoice>{{.head_dim = 12, .kv_rank = 16, .looped_kv_rank = 6}});
    compare(exact.loop(0.5, 2, choices).loop(0.25, 2, rankChoices({1, 1, 1, {14, 16}}, {1, 5, 8}, 12)),
            Targets::within(tolerance));
  }
}

TEST_CASE("the search finds what brute force finds with windows, sinks and biases") {
  for (const double tolerance : {0.3, 0.05, 0.01}) {
    CAPTURE(tolerance);
    Case uniform(tests::windowBaseline(), *budget::Attended::parse("16.5"));
    compare(uniform.loop(0.5, 2, uniformKvChoices({1, 1, 2}, kSmallHeads)), Targets::within(tolerance));
    Case exact(tests::windowBaseline(), *budget::Attended::parse("5"));
    compare(exact.loop(0.75, 3, exactKvChoices(24, 3, kSmallHeads)), Targets::within(tolerance));
  }
}

TEST_CASE("the search finds what brute force finds with gated shared experts and linear attention") {
  for (const double tolerance : {0.3, 0.05, 0.01}) {
    CAPTURE(tolerance);
    Case uniform(tests::gatedBaseline());
    compare(uniform.loop(0.5, 2, uniformKvChoices({1, 1, 2}, {4, 4, 16})), Targets::within(tolerance));
  }
}

TEST_CASE("the search finds what brute force finds over several loops and top_k") {
  Case test(plainBaseline());
  test.request.lattice.top_k = {1, 1, 1, {2, 3, 4}};
  test.request.lattice.experts = {1, 1, 1, {2, 4, 9, 24, 25, 40}};
  test.request.lattice.hidden_size = {1, 1, 1, {24, 40, 41, 48}};
  test.loop(0.5, 2, uniformKvChoices({1, 2, 2}, {2, 6, 10}));
  test.loop(0.5, 3, uniformKvChoices({1, 2, 2}, {2, 4, 8}));
  test.loop(0.75, 2, uniformKvChoices({1, 1, 1}, {2, 8, 16}));
  for (const double tolerance : {0.3, 0.05}) {
    CAPTURE(tolerance);
    compare(test, Targets::within(tolerance));
  }
}

TEST_CASE("the search finds what brute force finds with tolerances and weights of each budget") {
  Case test(mixedBaseline());
  test.loop(0.5, 2, uniformKvChoices({1, 1, 2}, kSmallHeads));
  compare(test, {{0.02, 1}, {0.1, 0.25}, {0.3, 2}});
  compare(test, {{0.02, 1}, {0.05, 1}, {kAnyDifference, 0}});
  compare(test, {{kAnyDifference, 0}, {0.05, 1}, {0.2, 1}});
  compare(test, {{0.05, 0}, {0.05, 0}, {kAnyDifference, 1}});
}

TEST_CASE("the search finds what brute force finds when a budget is out of reach") {
  Case coarse(plainBaseline());
  compare(coarse.loop(0.5, 2, uniformKvChoices({1, 1, 2}, {10, 10, 20})), Targets::within(kAnyDifference));
  Case few_experts(mixedBaseline());
  few_experts.request.lattice.experts = {1, 3, 5};
  few_experts.loop(0.5, 2, uniformKvChoices({1, 1, 2}, kSmallHeads));
  compare(few_experts, Targets::within(kAnyDifference));
  compare(few_experts, Targets::within(0.02));
}

TEST_CASE("the search finds what brute force finds with a target of predicted latency") {
  // Slow enough for each of the three limits to matter on models this small.
  const DeviceModel device{.name = "slow",
                           .bf16_flops = 2e9,
                           .f32_flops = 1e9,
                           .memory_bandwidth = 1e9,
                           .memory_bytes = 1e9,
                           .cache_bandwidth = 3e9,
                           .cache_bytes = 40e3,
                           .launch_seconds = 1e-6,
                           .achievable_bandwidth = 0.9,
                           .achievable_compute = 0.8};
  const std::pair<Step, Targets> wishes[] = {
      {{Phase::decode, 1, 64}, {{0.3, 1}, {0.3, 1}, {0.3, 1}, {0.02, 1}}},
      {{Phase::decode, 7, 300}, {{0.1, 1}, {0.1, 0.25}, {kAnyDifference, 0}, {0.1, 3}}},
      {{Phase::prefill, 1, 50}, {{0.3, 0}, {0.3, 0}, {0.5, 0}, {kAnyDifference, 1}}},
      {{Phase::decode, 1, 64}, {{0.05, 1}, {kAnyDifference, 0}, {kAnyDifference, 0.5}, {0, 0}}}};
  for (const auto &[step, wish] : wishes) {
    CAPTURE(step.words(), wish.latency.tolerance);
    const LatencyRequest request{.device = device, .step = step};
    Case test(mixedBaseline());
    test.request.lattice.experts = {3, 3, 30};
    test.loop(0.5, 2, uniformKvChoices({1, 1, 2}, {2, 6, 12}));
    test.loop(0.5, 3, perSegmentKvChoices({1, 2, 2}, {1, 1, 1}, {2, 8, 12}));
    test.request.latency = &request;
    test.request.target_picoseconds = predictedPicoseconds(test.baseline.architecture, request);
    compare(test, wish);
  }
}

TEST_CASE("several matches come in order, one for each choice of everything but the experts") {
  Case test(plainBaseline());
  test.loop(0.5, 2, uniformKvChoices({1, 1, 2}, kSmallHeads));
  test.request.targets = Targets::within(0.3);
  test.request.keep = 6;
  const std::vector<RankedShape> found = searchShapes(test.request);
  REQUIRE(found.size() == 6);
  for (size_t i = 1; i < found.size(); ++i) {
    CHECK(found[i - 1] < found[i]);
    Shape other = found[i].shape;
    other.experts = found[i - 1].shape.experts;
    CHECK(other != found[i - 1].shape);
  }
}

TEST_CASE("progress is told in parts of the whole") {
  Case test(plainBaseline());
  test.loop(0.5, 2, uniformKvChoices({1, 1, 2}, kSmallHeads));
  test.request.progress = [](double part) { CHECK((part > 0 && part <= 1)); };
  CHECK_FALSE(searchShapes(test.request).empty());
}
