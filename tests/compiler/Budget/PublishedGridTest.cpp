// The published SMELT grid against the specs of its cells: 28 cells x 4 printed values.
#include "tests/support/PublishedGrid.h"
#include "compiler/Budget/Budget.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace smelt;
using budget::Budget;

namespace {

Budget budgetOf(const std::string &name) {
  const spec::ModelSpec spec = tests::publishedSpec(name);
  CHECK(spec.name == name);
  CHECK(spec.vocab_size == 32768);
  return *budget::computeBudget(spec, budget::Attended::positions(392)).budget;
}

// Whether value, rounded to that many decimals, is the printed number.
bool rounds(double value, double printed, int decimals) {
  return std::fabs(value - printed) <= 0.5 * std::pow(10.0, -decimals) * (1 + 1e-9);
}

} // namespace

TEST_CASE("all 112 published values come out within rounding") {
  const auto cells = tests::publishedGrid();
  REQUIRE(cells.size() == 28);
  int checked = 0;
  for (const tests::PublishedCell &cell : cells) {
    CAPTURE(cell.name());
    const Budget budget = budgetOf(cell.name());
    const Budget baseline = budgetOf(cell.baselineName());
    const auto ratio = [&](int64_t Budget::*field) {
      return static_cast<double>(budget.*field) / static_cast<double>(baseline.*field);
    };
    CHECK(rounds(static_cast<double>(budget.active_params) / 1e9, cell.number("active_params_b"), 3));
    CHECK(rounds(static_cast<double>(budget.non_embedding_params) / 1e9, cell.number("total_params_b"), 2));
    CHECK(rounds(ratio(&Budget::training_flops_per_token), cell.number("flops_ratio"), 3));
    CHECK(rounds(ratio(&Budget::kv_elements_per_token), cell.number("kv_ratio"), 3));
    CHECK(budget.executed_layers == static_cast<int64_t>(cell.number("executed_layers")));
    checked += 4;
  }
  CHECK(checked == 112);
}
