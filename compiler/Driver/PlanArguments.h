// The options of `smeltc plan` that say what to look for.
#pragma once

#include "compiler/Driver/LatencyOptions.h"
#include "compiler/Planner/PlanOptions.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace smelt::driver {

class PlanArguments {
public:
  void declare(CLI::App &app);
  // Throws UserError for a device that cannot be read, or more than one step. `stored` is how the baseline's
  // weights are stored.
  planner::PlanOptions options(planner::NumberFormat stored) const;

private:
  void declareLoop(CLI::App &app);
  void declareBudgets(CLI::App &app);
  void declareLatency(CLI::App &app);
  void declareShape(CLI::App &app);
  std::optional<planner::LatencyRequest> latencyRequest(planner::NumberFormat stored) const;

  std::vector<double> spans;
  std::vector<int64_t> visits, layers, top_k, kv_heads, looped_kv_heads, looped_kv_ranks;
  std::string hidden_size, head_dim, kv_rank, expert_hidden_size, experts, query_heads;
  std::string flops_target, params_target, kv_target, latency_target;
  LatencyOptions latency;
  std::string attended;
  planner::Geometry geometry = planner::Geometry::uniform;
  double tolerance = planner::PlanOptions().tolerance;
  std::string name;
  unsigned threads = 0;
};

} // namespace smelt::driver
