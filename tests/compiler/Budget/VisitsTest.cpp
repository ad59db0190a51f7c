#include "compiler/Budget/Visits.h"

#include <catch2/catch.hpp>
#include <numeric>

using namespace smelt::budget;

namespace {

Architecture looped() {
  const Layer layer{.attention = GroupedAttention{.query_heads = 4, .kv_heads = 2, .head_dim = 8},
                    .ffn = DenseMlp{.width = 48}};
  Architecture result{.name = "looped", .vocab_size = 64, .hidden_size = 32};
  result.groups = {{.layer = layer, .layers = 1},
                   {.layer = layer, .layers = 2, .visits = 4, .looped = true},
                   {.layer = layer, .layers = 1}};
  result.adapters = {{.name = "adapter", .inputs = 64, .outputs = 32, .executions = 4, .looped = true}};
  return result;
}

double meanOf(const VisitDistribution &distribution) {
  double mean = 0;
  for (size_t r = 0; r < distribution.probabilities().size(); ++r) {
    mean += static_cast<double>(r) * distribution.probabilities()[r];
  }
  return mean;
}

} // namespace

TEST_CASE("distributions of visits add up to one") {
  for (const char *text :
       {"fixed:1", "fixed:32", "poisson-lognormal:4", "poisson-lognormal:32:0.5",
        "poisson-lognormal:6:0.5:20", "poisson-lognormal:1:0:3", "poisson-lognormal:0.1:2"}) {
    CAPTURE(text);
    const auto distribution = VisitDistribution::parse(text);
    REQUIRE(distribution);
    const auto &p = distribution->probabilities();
    CHECK(std::accumulate(p.begin(), p.end(), 0.0) == Approx(1).epsilon(1e-9));
    CHECK(p[0] == 0);
  }
  for (const char *bad :
       {"", "fixed", "fixed:0", "fixed:1.5", "fixed:99999", "poisson-lognormal", "poisson-lognormal:0",
        "poisson-lognormal:x", "poisson-lognormal:4:-1", "poisson-lognormal:4:0.5:0",
        "poisson-lognormal:4:0.5:16:1", "poisson-lognormal:nan", "poisson-lognormal:inf", "normal:4"}) {
    CAPTURE(bad);
    CHECK_FALSE(VisitDistribution::parse(bad));
  }
}

TEST_CASE("the mean of the visits is one above the mean of the rate, but for the bound") {
  CHECK(meanOf(*VisitDistribution::parse("poisson-lognormal:32")) == Approx(33).epsilon(1e-6));
  // Published from drawing 400,000 times.
  CHECK(meanOf(*VisitDistribution::parse("poisson-lognormal:4:0.5:16")) == Approx(4.98).margin(0.015));
  CHECK(meanOf(*VisitDistribution::parse("poisson-lognormal:6:0.5:20")) == Approx(6.95).margin(0.015));
  // Without spread it is Poisson's: P(1 visit) = exp(-2).
  CHECK(VisitDistribution::parse("poisson-lognormal:2:0")->probabilities()[1] == Approx(std::exp(-2)));
}

TEST_CASE("fixed visits cost what the account says") {
  const Architecture architecture = looped();
  const Context context = Context::causal(64);
  const Account account = *accountFor(architecture, context).account;
  const auto four = *expectedFlops(architecture, context, VisitDistribution::fixed(4));
  CHECK(four.visits == 4);
  CHECK(four.forward_flops == static_cast<double>(account.forward_flops));
  CHECK(four.training_flops == static_cast<double>(account.training_flops));
  CHECK(truncatedTrainingFlops(architecture, context, 4, 4) == account.training_flops);
}

TEST_CASE("visits without a gradient cost once, the others three times") {
  const Architecture architecture = looped();
  const Context context = Context::causal(64);
  const Account account = *accountFor(architecture, context).account;
  const int64_t visit = account.loop_flops_per_visit;
  CHECK(truncatedTrainingFlops(architecture, context, 4, 1) == account.training_flops - 3 * 2 * visit);
  CHECK(truncatedTrainingFlops(architecture, context, 4, 9) == account.training_flops);
  const auto expected = *expectedFlops(architecture, context, VisitDistribution::fixed(4), 1);
  CHECK(expected.training_flops == static_cast<double>(account.training_flops - 6 * visit));
}

TEST_CASE("the expected cost of a truncated loop is not the cost of the mean") {
  const Architecture architecture = looped();
  const Context context = Context::causal(64);
  const auto drawn = *VisitDistribution::parse("poisson-lognormal:4:0.5:16");
  const double mean = static_cast<double>(*truncatedTrainingFlops(architecture, context, 4, 4));
  CHECK(expectedFlops(architecture, context, drawn, 4)->training_flops < 1.05 * mean);
  CHECK(expectedFlops(architecture, context, drawn)->training_flops > 1.1 * mean);
}
