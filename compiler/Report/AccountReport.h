// Everything that is counted about a model, as text and JSON, and two models side by side.
#pragma once

#include "compiler/Budget/Accounting.h"
#include "compiler/Budget/Conventions.h"
#include "compiler/Budget/Visits.h"
#include "compiler/Report/LatencyReport.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace smelt::report {

// A model and its counts. `dtype` and `bytes_per_weight` are the checkpoint's; "" and 0 when there is none.
struct CountedModel {
  budget::Architecture architecture;
  budget::Account account;
  std::string model_type = {};
  std::string dtype = {};
  int64_t bytes_per_weight = 0;
  std::vector<std::string> notes = {};
};

// What was asked for beyond the counts themselves.
struct AccountExtras {
  budget::Context context;
  bool details = false; // components, cache law, bytes, the three meanings of active
  int64_t convention_length = 0;
  std::vector<budget::Convention> conventions = {}; // empty: not asked for
  std::string visit_distribution = {};
  std::optional<int64_t> gradient_visits = {};
  std::optional<budget::VisitExpectation> expectation = {};
};

std::string accountText(const CountedModel &model, const AccountExtras &extras);
// One object: the keys of a spec's budget, then "kv_bytes_per_token" of a checkpoint, then what `extras` asks
// for.
std::string accountJson(const CountedModel &model, const AccountExtras &extras);

// "32 layers: 32 query heads and 8 KV heads of 128; 8 experts of 14336, 2 of them used", one line for each
// run of layers.
std::vector<std::string> describeLayers(const budget::Architecture &architecture);

// Every number of both with the difference relative to the first, and the same predicted steps of both, if
// any.
std::string diffText(const CountedModel &a, const CountedModel &b, const budget::Context &context,
                     const std::vector<PredictedStep> &steps_a = {},
                     const std::vector<PredictedStep> &steps_b = {});
// {"a": {...}, "b": {...}, "relative_difference": {...}}, and "latency" for steps.
std::string diffJson(const CountedModel &a, const CountedModel &b, const budget::Context &context,
                     const std::vector<PredictedStep> &steps_a = {},
                     const std::vector<PredictedStep> &steps_b = {});

} // namespace smelt::report
