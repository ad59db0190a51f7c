#include "compiler/Planner/LoopPlacement.h"

#include "tests/compiler/Planner/BruteForce.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt;
using planner::loopMiddle;
using planner::placeLoop;

namespace {

spec::ModelSpec baseline(std::vector<spec::Segment> segments) {
  spec::ModelSpec spec;
  spec.name = "base";
  spec.vocab_size = 100;
  spec.hidden_size = 64;
  spec.attention = {.query_heads = 4, .kv_heads = 2, .head_dim = 16};
  spec.moe = spec::Moe{.experts = 16, .top_k = 2, .expert_hidden_size = 32};
  spec.mlp = spec::Mlp{.hidden_size = 128};
  for (spec::Segment &segment : segments) {
    segment.attention = spec.attention;
    spec.segments.push_back(segment);
  }
  return spec;
}

std::string layout(const spec::ModelSpec &spec) {
  std::string text;
  for (const spec::Segment &segment : spec.segments) {
    text += std::to_string(segment.layers) + (segment.ffn == spec::FfnKind::dense ? "d" : "m") + "x" +
            std::to_string(segment.visits) + " ";
  }
  return text;
}

} // namespace

TEST_CASE("the middle span is placed as published") {
  const auto text = [](int64_t layers, double span) {
    const auto placement = placeLoop(layers, span);
    return placement ? std::to_string(placement->prelude) + "/" + std::to_string(placement->looped) + "/" +
                           std::to_string(placement->coda)
                     : "none";
  };
  CHECK(text(10, 0.5) == "2/5/3");
  CHECK(text(12, 0.5) == "3/6/3");
  CHECK(text(20, 0.5) == "5/10/5");
  CHECK(text(30, 0.5) == "7/15/8");
  CHECK(text(12, 1.0) == "0/12/0");
  CHECK(text(12, 0.25) == "4/3/5");
  CHECK(text(1, 0.5) == "0/1/0");
  CHECK(text(4, 0.1) == "none");
  CHECK(text(4, 0.0) == "none");
  CHECK(text(4, 1.5) == "none");
  CHECK(text(4, std::nan("")) == "none");
}

TEST_CASE("segments are cut where the span begins and ends") {
  CHECK(layout(*loopMiddle(baseline({{.layers = 12}}), 0.5, 2).spec) == "3mx1 6mx2 3mx1 ");
  CHECK(layout(*loopMiddle(baseline({{.layers = 12}}), 1.0, 3).spec) == "12mx3 ");
  const std::vector<spec::Segment> mixed{{.layers = 2, .ffn = spec::FfnKind::dense}, {.layers = 8}};
  CHECK(layout(*loopMiddle(baseline(mixed), 0.5, 2).spec) == "2dx1 5mx2 3mx1 ");
  // Alike layers of two segments loop as one.
  CHECK(layout(*loopMiddle(baseline({{.layers = 5}, {.layers = 5}}), 0.5, 2).spec) == "2mx1 5mx2 3mx1 ");
}

TEST_CASE("the loop divides the residual scale by its visits") {
  const spec::ModelSpec looped = *loopMiddle(baseline({{.layers = 4, .residual_scale = 0.5}}), 0.5, 4).spec;
  CHECK(looped.segments[0].residual_scale == 0.5);
  CHECK(looped.segments[1].residual_scale == 0.125);
  CHECK(looped.segments[1].order == spec::VisitOrder::block);
}

TEST_CASE("what cannot loop is refused with the reason") {
  CHECK(loopMiddle(baseline({{.layers = 2}, {.layers = 2, .visits = 2}}), 0.5, 2).error ==
        "the baseline already loops: segment 2 has visits = 2; start from a model without loops");
  const std::vector<spec::Segment> mixed{{.layers = 4, .ffn = spec::FfnKind::dense}, {.layers = 6}};
  CHECK(loopMiddle(baseline(mixed), 0.5, 2).error == "the span, layers 2 to 6, crosses layers that differ in "
                                                     "ffn; a looped segment has layers of one kind: choose "
                                                     "another span");
  CHECK(loopMiddle(baseline({{.layers = 4}}), 0.1, 2).error ==
        "a span of 0.1 of 4 layers has no layer; it must be more than 0, at most 1 and reach at least one "
        "layer");
}

TEST_CASE("models that are no specs keep the pattern of their layers in the loop") {
  const auto layout = [](const planner::Baseline &baseline, double span) {
    const planner::LoopedModel looped =
        planner::loopedModel(baseline, planner::physicalLayers(baseline.architecture), span, 2);
    if (!looped.architecture) {
      return looped.error;
    }
    std::string text;
    for (const budget::LayerGroup &group : looped.architecture->groups) {
      text += std::to_string(group.layers) +
              (std::holds_alternative<budget::DenseMlp>(group.layer.ffn) ? "d" : "m") +
              (group.layer.reach == budget::Reach::sliding ? "w" : "") + "x" + std::to_string(group.visits) +
              (group.looped ? "! " : " ");
    }
    return text;
  };
  CHECK(layout(tests::windowBaseline(), 0.5) == "1mwx1 1mx1 1mwx2! 1mx2! 1mwx2! 1mx2! 1mwx1 1mx1 ");
  CHECK(layout(tests::latentBaseline(), 0.5) == "1dx1 4mx2! 2mx1 ");
  CHECK(
      layout(tests::latentBaseline(), 1.0) ==
      "the span, layers 0 to 6, reaches into the first 1 layers, which are dense and stay unlooped: choose a "
      "span of at most 0.714");
  CHECK(planner::loopedModel(tests::latentBaseline(), 9, 0.5, 2).error ==
        "layers cannot be free: the baseline's layers are of different kinds, and which of them there should "
        "be "
        "more of is not known; pin layers to 7");
  planner::Baseline looped = tests::windowBaseline();
  looped.architecture.groups.front().visits = 2;
  CHECK(planner::loopedModel(looped, 8, 0.5, 2).error ==
        "the baseline already loops: 1 of its layers have 2 visits; start from a model without loops");
}
