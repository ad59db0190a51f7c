// The conventions on models that other people counted and printed.
#include "compiler/Budget/Conventions.h"
#include "compiler/Budget/Visits.h"

#include <catch2/catch.hpp>
#include <map>

using namespace smelt::budget;

namespace {

std::map<std::string_view, int64_t> flopsOf(const Architecture &model, int64_t length) {
  std::map<std::string_view, int64_t> result;
  const auto all = conventions(model, length);
  REQUIRE(all);
  for (const Convention &convention : *all) {
    result[convention.name] = convention.training_flops;
  }
  return result;
}

// An MLP of two matrices of width 4 H has as many elements as a gated one of three of width 8/3 H; rounded
// down, when that is no whole number.
DenseMlp ungatedMlp(int64_t hidden) { return {.width = 8 * hidden / 3}; }
int64_t roundedOff(int64_t hidden) { return 8 * hidden * hidden - 3 * hidden * ungatedMlp(hidden).width; }

// A row of a table of models: FLOPs of training on a sequence of 2048, and their ratio to 6 N D, as printed.
struct Chinchilla {
  int64_t layers, hidden, heads;
  int64_t training_flops;
  double ratio;
};

} // namespace

// Hoffmann et al. 2022 (arXiv 2203.15556), appendix F, table A4. Its ratios are those of the appendix's
// formula without the embedding and the logits, which the authors confirmed to leave out of the table; the
// integers are karpathy/nanoGPT's scaling_laws.ipynb, an implementation that reproduces the table.
TEST_CASE("chinchilla's layers cost what table A4 of its paper says") {
  constexpr int64_t kLength = 2048;
  constexpr int64_t kVocabulary = 32000;
  constexpr Chinchilla table[] = {
      {10, 640, 10, 929877196800, 1.03},    {20, 1024, 16, 4135248199680, 1.10},
      {24, 1280, 10, 7353453772800, 1.08},  {26, 1792, 14, 14670316437504, 1.04},
      {28, 2048, 16, 20220437594112, 1.03}, {40, 3584, 28, 83021046743040, 0.99},
  };
  for (const Chinchilla &row : table) {
    CAPTURE(row.hidden);
    const Layer layer{.attention = GroupedAttention{.query_heads = row.heads,
                                                    .kv_heads = row.heads,
                                                    .head_dim = row.hidden / row.heads},
                      .ffn = ungatedMlp(row.hidden)};
    Architecture model{.name = "chinchilla", .vocab_size = kVocabulary, .hidden_size = row.hidden};
    model.groups = {{.layer = layer, .layers = row.layers}};
    const int64_t embedding_and_logits = 3 * 2 * 2 * kVocabulary * row.hidden;
    const int64_t flops = flopsOf(model, kLength)["chinchilla"] - embedding_and_logits +
                          6 * row.layers * roundedOff(row.hidden);
    CHECK(flops * kLength == row.training_flops);
    // Its relative positions have a matrix of d x d a layer; one embedding; the biases do not show.
    const auto parameters =
        static_cast<double>(row.layers * 13 * row.hidden * row.hidden + kVocabulary * row.hidden);
    CHECK(static_cast<double>(flops) / (6 * parameters) == Approx(row.ratio).margin(0.005));
  }
}

namespace {

// looped_nanochat: 2 layers, a block of 4 visited 4 times behind a 2n -> n adapter, 2 layers; sequences of
// 2048; windows of half of it in three of the block's layers; four norms a layer and three outside.
Architecture loopedNanochat(int64_t size) {
  const int64_t hidden = 64 * size;
  const int64_t heads = hidden / 128;
  const Layer full{.attention = GroupedAttention{.query_heads = heads, .kv_heads = heads, .head_dim = 128},
                   .ffn = ungatedMlp(hidden),
                   .norm_vectors = 4};
  Layer half = full;
  half.reach = Reach::sliding;
  half.window = 1024;
  Architecture model{.name = "looped", .vocab_size = 65536, .hidden_size = hidden, .final_norm_vectors = 3};
  model.groups = {{.layer = full, .layers = 2},
                  {.layer = half, .layers = 3, .visits = 4, .looped = true},
                  {.layer = full, .layers = 1, .visits = 4, .looped = true},
                  {.layer = full, .layers = 2}};
  model.adapters = {
      {.name = "inject", .inputs = 2 * hidden, .outputs = hidden, .executions = 4, .looped = true}};
  return model;
}

} // namespace

TEST_CASE("looped_nanochat's published counts come out") {
  constexpr struct {
    int64_t size, params, training_flops;
  } published[] = {{8, 92816896, 767803392}, {12, 158492928, 1444257792}, {20, 328380160, 3382272000}};
  for (const auto &row : published) {
    CAPTURE(row.size);
    const Architecture model = loopedNanochat(row.size);
    const int64_t hidden = model.hidden_size;
    CHECK(accountFor(model).account->total_params + 8 * roundedOff(hidden) == row.params);
    // It counts the norms within layers as matrices, and not those outside.
    CHECK(flopsOf(model, 2048)["torchtitan"] - 6 * 3 * hidden + 6 * 20 * roundedOff(hidden) ==
          row.training_flops);
  }
}

TEST_CASE("drawn visits of looped_nanochat do not cost what their mean does") {
  const Architecture model = loopedNanochat(20);
  const Context context = Context::full(2048);
  const double head = 3 * static_cast<double>(accountFor(model, context).account->head_flops);
  const auto excess = [&](const char *visits, int64_t mean, int64_t gradient_visits) {
    const VisitDistribution drawn = *VisitDistribution::parse(visits);
    const double expected = expectedFlops(model, context, drawn, gradient_visits)->training_flops + head;
    const auto of_mean = *truncatedTrainingFlops(model, context, mean, gradient_visits);
    return expected / (static_cast<double>(of_mean) + head) - 1;
  };
  // A mean of 4 and at most 16: 1.1 % below 4 visits with the gradient through the last 4, 17 % above with
  // all.
  CHECK(excess("poisson-lognormal:4:0.5:16", 4, 4) == Approx(-0.011).margin(0.0005));
  CHECK(excess("poisson-lognormal:4:0.5:16", 4, 16) == Approx(0.17).margin(0.005));
  // A mean of 6 and at most 20: 2.1 % above.
  CHECK(excess("poisson-lognormal:6:0.5:20", 6, 4) == Approx(0.021).margin(0.0005));
}
