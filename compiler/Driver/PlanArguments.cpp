#include "compiler/Driver/PlanArguments.h"

#include "compiler/Driver/Options.h"
#include "compiler/Driver/UserError.h"

#include <charconv>
#include <optional>

namespace smelt::driver {

namespace {

using planner::Lattice;
using planner::Target;

constexpr uint64_t most = 1'000'000;

CLI::Validator lattice() {
  auto check = [](std::string &text) -> std::string {
    return planner::parseLattice(text)
               ? ""
               : fmt::format(
                     "'{}' is not a value, a list such as 4,8, or a range and step such as 512..2048/64",
                     text);
  };
  return CLI::Validator(check, "");
}

std::optional<double> parseNumber(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// "0.01", "0.01:2" with a weight, "any" for no tolerance.
std::optional<Target> parseTarget(std::string_view text) {
  size_t colon = text.find(':');
  std::string_view first = text.substr(0, colon);
  std::optional<double> tolerance =
      first == "any" ? std::optional(planner::kAnyDifference) : parseNumber(first);
  std::optional<double> weight =
      colon == std::string_view::npos ? std::optional(1.0) : parseNumber(text.substr(colon + 1));
  return tolerance && weight ? std::optional(Target{*tolerance, *weight}) : std::nullopt;
}

CLI::Validator target() {
  auto check = [](std::string &text) -> std::string {
    return parseTarget(text)
               ? ""
               : fmt::format("'{}' is not a tolerance such as 0.01, 0.01:2 with a weight, or any", text);
  };
  return CLI::Validator(check, "");
}

Lattice latticeOf(const std::string &text) { return text.empty() ? Lattice() : *planner::parseLattice(text); }

} // namespace

void PlanArguments::declare(CLI::App &app) {
  declareLoop(app);
  declareBudgets(app);
  declareLatency(app);
  declareShape(app);
  app.add_option("--name", name, "Name of the plan (default: the baseline's with -looped)")
      ->type_name("NAME");
  app.add_option("--threads", threads, "Threads of the search (default: one for each processor)")
      ->check(wholeNumber(1, 1024))
      ->type_name("N");
}

void PlanArguments::declareLoop(CLI::App &app) {
  app.add_option("--span", spans,
                 "Part of the layers that loops, in the middle (default 0.5); of several, the best")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number())
      ->type_name("PART,...");
  app.add_option("--visits", visits, "How often the loop is run (default 2); of several, the best")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(wholeNumber(1, most))
      ->type_name("N,...");
  app.add_option("--layers", layers, "Numbers of layers to try (default: the baseline's)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(wholeNumber(1, most))
      ->type_name("N,...");
}

void PlanArguments::declareBudgets(CLI::App &app) {
  app.add_option("--attended", attended,
                 "Mean number of positions a token attends to (default " + budget::Attended().text() + ")")
      ->check(attendedPositions())
      ->type_name("N");
  app.add_option("--tolerance", tolerance, "Largest relative difference of a budget (default 0.05)")
      ->check(number())
      ->type_name("PART");
  const std::pair<const char *, std::string *> targets[] = {
      {"--match-flops", &flops_target}, {"--match-params", &params_target}, {"--match-kv", &kv_target}};
  for (const auto &[option, text] : targets) {
    app.add_option(option, *text,
                   "This budget's own tolerance and weight (default --tolerance and 1), or any")
        ->check(target())
        ->type_name("PART[:WEIGHT]");
  }
}

void PlanArguments::declareLatency(CLI::App &app) {
  latency.declare(app, "latency-");
  app.add_option("--match-latency", latency_target,
                 "Match the predicted latency, too: its tolerance and weight, or any (default: only told)")
      ->check(target())
      ->needs(latency.deviceOption())
      ->type_name("PART[:WEIGHT]");
}

std::optional<planner::LatencyRequest> PlanArguments::latencyRequest(planner::NumberFormat stored) const {
  if (!latency.asked()) {
    return std::nullopt;
  }
  std::vector<planner::LatencyRequest> requests = latency.requests(stored);
  if (requests.size() > 1) {
    throw UserError(SMELT_usage,
                    fmt::format("a plan has one predicted step, not {}: give --latency-batch one number, and "
                                "--latency-context or --latency-prompt\ntry 'smeltc plan --help'",
                                requests.size()));
  }
  return std::move(requests.front());
}

void PlanArguments::declareShape(CLI::App &app) {
  app.add_option("--geometry", geometry, "One geometry of heads, or looped layers with KV heads of their own")
      ->transform(choice<planner::Geometry>(
          {{"uniform", planner::Geometry::uniform}, {"per_segment", planner::Geometry::per_segment}}))
      ->type_name("uniform|per_segment");
  const std::tuple<const char *, std::string *, const char *> lattices[] = {
      {"--hidden-size", &hidden_size, "Values of hidden_size: 1024, 768,1024 or 512..2048/64"},
      {"--head-dim", &head_dim, "Values of head_dim, likewise"},
      {"--kv-rank", &kv_rank, "Values of the KV rank of latent attention, likewise"},
      {"--expert-hidden-size", &expert_hidden_size, "Values of expert_hidden_size, likewise"},
      {"--experts", &experts, "Values of experts, likewise"},
      {"--query-heads", &query_heads, "Values of query_heads, likewise"}};
  for (const auto &[option, text, help] : lattices) {
    app.add_option(option, *text, help)->check(lattice())->type_name("VALUES");
  }
  const std::tuple<const char *, std::vector<int64_t> *, const char *> lists[] = {
      {"--kv-heads", &kv_heads, "Numbers of KV heads to try (default: the baseline's)"},
      {"--looped-kv-heads", &looped_kv_heads,
       "Numbers of KV heads of looped layers to try (per_segment; default: those that keep the KV cache)"},
      {"--looped-kv-rank", &looped_kv_ranks,
       "KV ranks of looped layers to try (per_segment; default: the one that keeps the KV cache)"},
      {"--top-k", &top_k, "Numbers of experts per token to try (default: the baseline's)"}};
  for (const auto &[option, values, help] : lists) {
    app.add_option(option, *values, help)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(wholeNumber(1, most))
        ->type_name("N,...");
  }
}

planner::PlanOptions PlanArguments::options(planner::NumberFormat stored) const {
  planner::PlanOptions options;
  options.latency = latencyRequest(stored);
  options.spans = spans;
  options.visit_counts = visits;
  options.layers = layers;
  options.attended = attended.empty() ? budget::Attended() : *budget::Attended::parse(attended);
  options.tolerance = tolerance;
  options.name = name;
  options.geometry = geometry;
  options.hidden_size = latticeOf(hidden_size);
  options.head_dim = latticeOf(head_dim);
  options.expert_hidden_size = latticeOf(expert_hidden_size);
  options.experts = latticeOf(experts);
  options.query_heads = latticeOf(query_heads);
  options.kv_heads = kv_heads;
  options.looped_kv_heads = looped_kv_heads;
  options.kv_rank = latticeOf(kv_rank);
  options.looped_kv_ranks = looped_kv_ranks;
  options.top_k = top_k;
  options.threads = threads;
  if (!flops_target.empty() || !params_target.empty() || !kv_target.empty() || !latency_target.empty()) {
    const auto targetOf = [&](const std::string &text) {
      return text.empty() ? Target{tolerance} : *parseTarget(text);
    };
    options.targets = {targetOf(flops_target), targetOf(params_target), targetOf(kv_target)};
    if (!latency_target.empty()) {
      options.targets->latency = *parseTarget(latency_target);
    }
  }
  return options;
}

} // namespace smelt::driver
