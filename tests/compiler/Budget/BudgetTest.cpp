#include "compiler/Budget/Budget.h"
#include "compiler/Budget/Memory.h"
#include "compiler/Spec/SpecValidator.h"
#include "compiler/Spec/WeightTable.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>

using namespace smelt;
using budget::Attended;
using budget::Budget;
using budget::computeBudget;

namespace {

// One of everything, small enough to count by hand.
spec::ModelSpec everything() {
  spec::ModelSpec spec;
  spec.name = "everything";
  spec.vocab_size = 11;
  spec.hidden_size = 10;
  spec.attention = {.query_heads = 4,
                    .kv_heads = 2,
                    .head_dim = 6,
                    .qk_norm = spec::QkNorm::per_head,
                    .qkv_bias = true}; // query width 24, kv width 12
  spec.moe = spec::Moe{
      .experts = 5, .top_k = 2, .expert_hidden_size = 7, .shared_experts = 2, .shared_expert_hidden_size = 3};
  spec.mlp = spec::Mlp{.hidden_size = 9};
  spec::Segment dense{.layers = 2, .ffn = spec::FfnKind::dense, .attention = spec.attention};
  dense.attention.qk_norm = spec::QkNorm::full_width;
  dense.attention.qkv_bias = false;
  spec.segments = {dense, {.layers = 3, .visits = 4, .residual_scale = 0.25, .attention = spec.attention}};
  return spec;
}

int64_t elements(const std::vector<spec::WeightDecl> &table) {
  int64_t total = 0;
  for (const spec::WeightDecl &weight : table) {
    int64_t count = weight.tensors();
    for (int64_t dim : weight.shape) {
      count *= dim;
    }
    total += count;
  }
  return total;
}

} // namespace

TEST_CASE("every kind of weight and product is counted") {
  REQUIRE(spec::validate(everything()).empty());
  const Budget budget = *computeBudget(everything(), Attended::positions(8)).budget;
  const int64_t projections = 2 * 10 * 24 + 2 * 10 * 12;
  const int64_t dense_ffn = 3 * 10 * 9;
  const int64_t dense_vectors = 2 * 10 + 24 + 12;
  const int64_t always = 10 * 5 + 3 * 10 * (2 * 3);
  const int64_t expert = 3 * 10 * 7;
  const int64_t moe_vectors = 2 * 10 + (24 + 12 + 12) + 2 * 6;
  CHECK(budget.non_embedding_params == 2 * (projections + dense_vectors + dense_ffn) +
                                           3 * (projections + moe_vectors + always + 5 * expert));
  CHECK(budget.active_params == 2 * (projections + dense_vectors + dense_ffn) +
                                    3 * (projections + moe_vectors + always + 2 * expert));
  CHECK(budget.total_params == budget.non_embedding_params + 11 * 10 + 10 + 11 * 10);
  CHECK(budget.forward_flops_per_token == 2 * (2 * (projections + dense_ffn) + 4 * 24 * 8) +
                                              12 * (2 * (projections + always + 2 * expert) + 4 * 24 * 8));
  CHECK(budget.training_flops_per_token == 3 * budget.forward_flops_per_token);
  CHECK(budget.executed_layers == 14);
  CHECK(budget.kv_elements_per_token == 14 * 2 * 12);
}

TEST_CASE("a tied head is stored once") {
  spec::ModelSpec spec = everything();
  const Budget untied = *computeBudget(spec).budget;
  spec.tie_embeddings = true;
  const Budget tied = *computeBudget(spec).budget;
  CHECK(untied.total_params - tied.total_params == 11 * 10);
  CHECK(untied.non_embedding_params == tied.non_embedding_params);
  CHECK(untied.forward_flops_per_token == tied.forward_flops_per_token);
}

TEST_CASE("half positions count exactly") {
  const auto forward = [](Attended attended) {
    return computeBudget(everything(), attended).budget->forward_flops_per_token;
  };
  CHECK(forward(Attended::positions(8)) + forward(Attended::positions(9)) ==
        2 * forward(*Attended::parse("8.5")));
}

TEST_CASE("an overflow is an error that names the budget") {
  const budget::BudgetResult result = computeBudget(everything(), Attended::positions(INT64_MAX / 100));
  CHECK_FALSE(result);
  CHECK(result.error ==
        "training_flops_per_token does not fit in 64 bits (with 92233720368547758 attended positions)");

  spec::ModelSpec huge = everything();
  huge.hidden_size = INT64_MAX;
  CHECK(computeBudget(huge).error.find("non_embedding_params") == 0);
}

TEST_CASE("the largest valid specs fit") {
  spec::ModelSpec spec = everything();
  spec.vocab_size = spec::Limits::vocab_size;
  spec.hidden_size = spec::Limits::width;
  spec.attention = {.query_heads = 1 << 13, .kv_heads = 1 << 13, .head_dim = 128};
  spec.moe = spec::Moe{.experts = 1, .top_k = 1, .expert_hidden_size = 64};
  spec.mlp.reset();
  spec.segments = {
      {.layers = 200, .visits = spec::Limits::visits, .residual_scale = 0.5, .attention = spec.attention}};
  REQUIRE(spec::validate(spec).empty());
  CHECK(computeBudget(spec, Attended::causal(int64_t{1} << 24)));
  spec.segments.front().layers = 300;
  const auto problems = spec::validate(spec);
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().message == "the model has about 1.35e+15 parameters; at most 1e+15 are supported");
}

TEST_CASE("total parameters are the elements of the weight table") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const spec::ModelSpec spec = tests::generateSpec(seed);
    CAPTURE(seed);
    const Budget budget = *computeBudget(spec).budget;
    CHECK(budget.total_params == elements(spec::weightTable(spec)));
    CHECK(budget.executed_layers == spec.executedLayers());
    CHECK(budget.active_params <= budget.non_embedding_params);
  }
}

TEST_CASE("memory follows the data type and the positions") {
  const Budget budget = *computeBudget(everything()).budget;
  const budget::Memory memory = *budget::estimateMemory(everything(), 2, 100);
  CHECK(memory.weight_bytes == 2 * budget.total_params);
  CHECK(memory.kv_bytes == 4 * 100 * budget.kv_elements_per_token);
  CHECK_FALSE(budget::estimateMemory(everything(), 2, INT64_MAX / 4));
}

TEST_CASE("fields are named as in the struct") {
  const Budget budget{1, 2, 3, 4, 5, 6, 7};
  std::string text;
  for (const auto &[key, value] : budget::fields(budget)) {
    text += std::string(key) + "=" + std::to_string(value) + " ";
  }
  CHECK(text == "non_embedding_params=1 total_params=2 active_params=3 training_flops_per_token=4 "
                "forward_flops_per_token=5 kv_elements_per_token=6 executed_layers=7 ");
}
