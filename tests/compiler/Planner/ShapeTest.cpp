#include "compiler/Planner/Shape.h"
#include "compiler/Planner/HardwareFit.h"
#include "compiler/Planner/KvChoice.h"
#include "compiler/Planner/Lattice.h"
#include "tests/compiler/Planner/BruteForce.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt;
using namespace smelt::planner;

TEST_CASE("widths that are not searched keep their proportion") {
  const spec::ModelSpec spec = applyShape(tests::mixedBaseline(), {.hidden_size = 36,
                                                                   .query_heads = 6,
                                                                   .kv_heads = 2,
                                                                   .head_dim = 8,
                                                                   .expert_hidden_size = 48,
                                                                   .experts = 20});
  CHECK(spec.mlp->hidden_size == 72);
  CHECK(spec.moe->shared_expert_hidden_size == 40); // 36 to the nearest multiple of 8, halves up
  CHECK(spec.moe->top_k == 3);
  CHECK(spec.segments[0].attention.query_heads == 6);
  CHECK(spec.segments[0].attention.qkv_bias);
}

TEST_CASE("only looped layers get the looped KV heads") {
  spec::ModelSpec baseline = tests::plainBaseline();
  baseline.segments = {{.layers = 2, .attention = baseline.attention},
                       {.layers = 3, .visits = 2, .attention = baseline.attention},
                       {.layers = 2, .attention = baseline.attention}};
  Shape shape = shapeOf(baseline);
  CHECK(shape.looped_kv_heads == 0);
  shape.looped_kv_heads = 1;
  shape.top_k = 4;
  const spec::ModelSpec spec = applyShape(baseline, shape);
  CHECK(spec.segments[0].attention.kv_heads == 2);
  CHECK(spec.segments[1].attention.kv_heads == 1);
  CHECK(spec.segments[2].attention.kv_heads == 2);
  CHECK(shapeOf(spec) == shape);
}

TEST_CASE("the distance is that of the logarithms of proportions") {
  const Shape base{.hidden_size = 64,
                   .query_heads = 8,
                   .kv_heads = 4,
                   .head_dim = 8,
                   .expert_hidden_size = 32,
                   .experts = 8,
                   .top_k = 2};
  const double two = std::log(2.0);
  const auto changed = [&](auto change) {
    Shape shape = base;
    change(shape);
    return shapeDistance(shape, base);
  };
  CHECK(changed([](Shape &) {}) == 0);
  CHECK(changed([](Shape &s) { s.experts = 80; }) == 0);
  CHECK(changed([](Shape &s) { s.expert_hidden_size = 64; }) == Approx(two));
  CHECK(changed([](Shape &s) { s.top_k = 4; }) == Approx(two));
  // Q/K and Q/H both double.
  CHECK(changed([](Shape &s) { s.query_heads = 16; }) == Approx(two * std::sqrt(2)));
  // Twice the KV heads of half the size: K is as before, Q is half.
  CHECK(changed([](Shape &s) { s.kv_heads = 8, s.head_dim = 4; }) == Approx(two * std::sqrt(2.25)));
  CHECK(shapeDistance(base, base, 2, 2.0) == Approx(two));
  Shape looped = base;
  looped.looped_kv_heads = 2;
  CHECK(shapeDistance(looped, base, 2) == 0);
  CHECK(shapeDistance(looped, base, 4) == Approx(two / 2));
}

TEST_CASE("the hardware fit counts missing factors of two and padding") {
  CHECK(missingFactors(64, 64) == 0);
  CHECK(missingFactors(192, 64) == 0);
  CHECK(missingFactors(36, 64) == 4);
  CHECK(missingFactors(7, 8) == 3);
  const Shape good{.hidden_size = 1024,
                   .query_heads = 16,
                   .kv_heads = 4,
                   .head_dim = 64,
                   .expert_hidden_size = 384,
                   .experts = 512,
                   .top_k = 8};
  CHECK(hardwareFit(good).misfit() == 0);
  Shape odd = good;
  odd.head_dim = 40;
  odd.experts = 517;
  CHECK(hardwareFit(odd).missing_factors == 6);
  // Attention's 40 x (4 x 16 + 4 x 4) = 3200 rise to 3840, of 3200 + 6 x 8 x 384 = 21632 in all: 2.96 %.
  CHECK(hardwareFit(odd).padding_percent == 3);
}

TEST_CASE("an axis holds the multiples of its step in its range, or a list") {
  CHECK(Axis{8, 9, 30}.first() == 16);
  CHECK(Axis{8, 9, 30}.last() == 24);
  CHECK(Axis{8, 16, 16}.first() == 16);
  CHECK(Axis{8, 17, 23}.empty());
  CHECK(Axis{8, 9, 30}.values() == std::vector<int64_t>{16, 24});
  CHECK(Axis{8, 9, 30}.atOrBelow(23) == 16);
  CHECK(Axis{8, 9, 30}.atOrBelow(15) == std::nullopt);
  CHECK(Axis{8, 9, 30}.atOrAbove(17) == 24);
  CHECK(Axis{8, 9, 30}.atOrAbove(25) == std::nullopt);
  const Axis list{1, 1, 1, {3, 8, 12}};
  CHECK(list.atOrBelow(11) == 8);
  CHECK(list.atOrAbove(9) == 12);
  CHECK(list.atOrAbove(13) == std::nullopt);
  CHECK(list.multiplesOf(4)->values() == std::vector<int64_t>{8, 12});
  CHECK(list.multiplesOf(5) == std::nullopt);
  CHECK(Axis{6, 6, 30}.multiplesOf(4)->values() == std::vector<int64_t>{12, 24});
}

TEST_CASE("lattices are read from text") {
  const Axis usual{8, 16, 64};
  const auto values = [&](std::string_view text) { return parseLattice(text)->resolve(usual).text(); };
  CHECK(values("1024") == "1024");
  CHECK(values("4,2,4") == "one of 2, 4");
  CHECK(values("/32") == "multiples of 32 from 16 to 64");
  CHECK(values("24..40") == "multiples of 8 from 24 to 40");
  CHECK(values("..40/4") == "multiples of 4 from 16 to 40");
  CHECK(values("24../1") == "from 24 to 64");
  CHECK(Lattice{.max = 3, .list = {4, 5}}.resolve(usual).empty());
  for (const char *text : {"", "0", "-4", "x", "4,", "4..x", "8/", "8/4", "/0", "4...8", "1,2/3"}) {
    CAPTURE(text);
    CHECK_FALSE(parseLattice(text));
  }
}

TEST_CASE("exact KV choices have the baseline's cache") {
  CHECK(exactKvChoices(256, 2, {16, 16, 128}) ==
        std::vector<KvChoice>{{16, 8, 16}, {8, 4, 32}, {4, 2, 64}, {2, 1, 128}});
  CHECK(exactKvChoices(224, 2, {16, 16, 112}) == std::vector<KvChoice>{{14, 7, 16}, {2, 1, 112}});
}

TEST_CASE("a spec and its layers get the same shape") {
  const Shape shape{.hidden_size = 36,
                    .query_heads = 6,
                    .kv_heads = 2,
                    .looped_kv_heads = 1,
                    .head_dim = 8,
                    .expert_hidden_size = 44,
                    .experts = 20,
                    .top_k = 2};
  spec::ModelSpec looped = tests::mixedBaseline();
  looped.segments.back().visits = 2;
  CHECK(budget::architectureOf(applyShape(looped, shape)) ==
        applyShape(tests::mixedBaseline(), budget::architectureOf(looped), shape));
}

TEST_CASE("latent attention gets heads and ranks, and keeps its sizes") {
  const Baseline baseline = tests::latentBaseline();
  budget::Architecture looped = baseline.architecture;
  looped.groups.back().visits = 2;
  Shape shape = shapeOf(baseline.architecture);
  CHECK(shape.query_heads == 4);
  CHECK(shape.kv_heads == 0);
  CHECK(shape.head_dim == 12);
  CHECK(shape.kv_rank == 16);
  shape.query_heads = 6;
  shape.looped_kv_rank = 6;
  shape.expert_hidden_size = 37;
  const budget::Architecture changed = applyShape(baseline, looped, shape);
  CHECK(shapeOf(changed) == shape);
  const auto &first = std::get<budget::LatentAttention>(changed.groups[0].layer.attention);
  CHECK(first.heads == 6);
  CHECK(first.kv_rank == 16);
  CHECK(first.query_rank == 20);
  CHECK(std::get<budget::ExpertMlp>(changed.groups[1].layer.ffn).shared_width == 74);
  CHECK(std::get<budget::LatentAttention>(changed.mtp->layer.attention).kv_rank == 16);
  // Twice the heads at the same rank: Q/K and Q/H double.
  Shape wide = shapeOf(baseline.architecture);
  wide.query_heads = 8;
  CHECK(shapeDistance(wide, shapeOf(baseline.architecture)) == Approx(std::log(2.0) * std::sqrt(2)));
}

TEST_CASE("the hardware fit of latent attention looks at its ranks") {
  Shape shape{.hidden_size = 1024,
              .query_heads = 16,
              .head_dim = 192,
              .expert_hidden_size = 384,
              .experts = 512,
              .top_k = 8,
              .kv_rank = 512};
  CHECK(hardwareFit(shape).misfit() == 0);
  shape.looped_kv_rank = 224;
  CHECK(hardwareFit(shape).missing_factors == 1);
  shape.looped_kv_rank = 225;
  CHECK(hardwareFit(shape) == HardwareFit{.missing_factors = 6, .padding_percent = 1});
}
