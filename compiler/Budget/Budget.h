// Exact parameter, FLOP and KV cache counts of a spec. docs/budgets.md defines them.
//
// Convention "exact": a multiply-add is 2 FLOPs; matrix products and attention scores count, norms, biases,
// softmax and activations do not; the router counts; embeddings, final norm and LM head are outside all
// budgets but total_params. A layer's parameters count once, its FLOPs and KV once per visit. This is the
// convention under which the published SMELT grid (arXiv 2609.01343) comes out, with 392 attended positions.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Spec/ModelSpec.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace smelt::budget {

struct Account;      // Accounting.h: everything that is counted
struct Architecture; // Architecture.h: what is counted

struct Budget {
  int64_t non_embedding_params = 0;     // weights of the layers, each layer once
  int64_t total_params = 0;             // every stored weight: with embedding, final norm and untied head
  int64_t active_params = 0;            // non-embedding weights one token uses: top_k of the experts
  int64_t training_flops_per_token = 0; // 3 x forward
  int64_t forward_flops_per_token = 0;
  int64_t kv_elements_per_token = 0; // K and V of every executed layer
  int64_t executed_layers = 0;       // sum of layers x visits

  bool operator==(const Budget &) const = default;
};

// Every field with its JSON key, in the order of the struct.
std::array<std::pair<std::string_view, int64_t>, 7> fields(const Budget &budget);

struct BudgetResult {
  std::optional<Budget> budget;
  std::string error; // which budget does not fit in 64 bits, when there is none

  explicit operator bool() const { return budget.has_value(); }
};

// Specs that validate() accepts fit at any context a machine could hold.
BudgetResult computeBudget(const spec::ModelSpec &spec, Attended attended = Attended());

BudgetResult computeBudget(const Architecture &architecture, Attended attended = Attended());

Budget budgetOf(const Account &account);

} // namespace smelt::budget
