#include "compiler/Budget/Budget.h"

#include "compiler/Budget/Accounting.h"

namespace smelt::budget {

std::array<std::pair<std::string_view, int64_t>, 7> fields(const Budget &budget) {
  return {{
      {"non_embedding_params", budget.non_embedding_params},
      {"total_params", budget.total_params},
      {"active_params", budget.active_params},
      {"training_flops_per_token", budget.training_flops_per_token},
      {"forward_flops_per_token", budget.forward_flops_per_token},
      {"kv_elements_per_token", budget.kv_elements_per_token},
      {"executed_layers", budget.executed_layers},
  }};
}

BudgetResult computeBudget(const spec::ModelSpec &spec, Attended attended) {
  return computeBudget(architectureOf(spec), attended);
}

BudgetResult computeBudget(const Architecture &architecture, Attended attended) {
  const AccountResult result = accountFor(architecture, Context(attended));
  if (!result) {
    return {.budget = std::nullopt, .error = result.error};
  }
  return {.budget = budgetOf(*result.account), .error = ""};
}

Budget budgetOf(const Account &account) {
  return {.non_embedding_params = account.non_embedding_params,
          .total_params = account.total_params,
          .active_params = account.active_params,
          .training_flops_per_token = account.training_flops,
          .forward_flops_per_token = account.forward_flops,
          .kv_elements_per_token = account.kv_elements_per_token,
          .executed_layers = account.executed_layers};
}

} // namespace smelt::budget
