// The rows that reports of accounts share.
#pragma once

#include "compiler/Report/AccountReport.h"

#include <string_view>
#include <utility>
#include <vector>

namespace smelt::report {

struct NamedCount {
  std::string_view key;   // JSON
  std::string_view label; // tables
  int64_t value = 0;
};

// The budgets of a spec, in the order of their contract.
std::vector<NamedCount> budgetNumbers(const budget::Account &account);
// The rest: model cards' meanings of active, stored, head, multi-token prediction.
std::vector<NamedCount> detailNumbers(const budget::Account &account);
// Bytes of all weights but multi-token prediction's, by data type. Int4 rounded up; types that do not fit are
// left out.
std::vector<std::pair<std::string_view, int64_t>> weightBytes(const budget::Account &account);
// Nothing when it does not fit 64 bits.
std::optional<int64_t> kvBytesPerToken(const CountedModel &model);

} // namespace smelt::report
