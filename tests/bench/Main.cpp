// smelt-bench: one table of tokens per second next to the machine's own limits.
#include "smelt/runtime.h"
#include "tests/bench/Limits.h"
#include "tests/bench/ModelBench.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <thread>

using namespace smelt::bench;

namespace {

// Which ceiling a row is held against: compute for prefill, memory for decode of one sequence.
double shareOfLimit(const Measurement &m, const ModelResult &model, const Limits &limits) {
  if (m.phase.rfind("decode", 0) == 0) {
    return m.gbytes_per_second / limits.read_gbytes;
  }
  bool dot = model.weights_dtype == "bf16" && model.isa == "x86-64-v4+bf16";
  return m.gflops / (dot ? limits.bf16_gflops : limits.fma_gflops);
}

void printTable(const std::vector<ModelResult> &results, const Limits &limits, unsigned threads) {
  fmt::print("limits, {} threads: f32 FMA {:.0f} GFLOP/s, VDPBF16PS {:.0f} GFLOP/s, read {:.1f} GB/s\n",
             threads, limits.fma_gflops, limits.bf16_gflops, limits.read_gbytes);
  fmt::print("{:<26} {:<5} {:<15} {:<12} {:>10} {:>7} {:>8} {:>7} {:>9} {:>8}  {}\n", "model", "dtype", "isa",
             "phase", "tokens/s", "spread", "GFLOP/s", "GB/s", "% of lim", "experts", "placement");
  for (const ModelResult &model : results) {
    for (const Measurement &m : model.measurements) {
      fmt::print("{:<26} {:<5} {:<15} {:<12} {:>10.1f} {:>6.1f}% {:>8.1f} {:>7.1f} {:>8.0f}% {:>8.1f}  {}",
                 model.model, model.weights_dtype, model.isa, m.phase, m.tokens_per_second.median,
                 100 * m.tokens_per_second.spread, m.gflops, m.gbytes_per_second,
                 100 * shareOfLimit(m, model, limits), m.experts, placementName(m.placement));
      fmt::print("{}\n",
                 m.dropped ? fmt::format(", {} of {} samples dropped", m.dropped, m.dropped + m.kept) : "");
    }
  }
}

nlohmann::json toJson(const std::vector<ModelResult> &results, const Limits &limits, unsigned threads) {
  nlohmann::json models = nlohmann::json::array();
  for (const ModelResult &model : results) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Measurement &m : model.measurements) {
      rows.push_back({{"phase", m.phase},
                      {"tokens_per_second", m.tokens_per_second.median},
                      {"spread", m.tokens_per_second.spread},
                      {"gflops", m.gflops},
                      {"gbytes_per_second", m.gbytes_per_second},
                      {"share_of_limit", shareOfLimit(m, model, limits)},
                      {"distinct_experts", m.experts},
                      {"placement", placementName(m.placement)},
                      {"samples", m.kept},
                      {"dropped", m.dropped}});
    }
    models.push_back(
        {{"model", model.model}, {"isa", model.isa}, {"weights_dtype", model.weights_dtype}, {"rows", rows}});
  }
  return {{"threads", threads},
          {"fma_gflops", limits.fma_gflops},
          {"bf16_gflops", limits.bf16_gflops},
          {"read_gbytes_per_second", limits.read_gbytes},
          {"models", models}};
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Measures compiled models against the machine's own limits."};
  std::vector<std::string> pairs;
  std::vector<unsigned> prefills = {32, 128, 512}, batches = {1, 4, 16};
  ModelRequest shared;
  unsigned steps = 16;
  bool json = false;
  app.add_option("models", pairs, "MODEL.smelt=WEIGHTS.safetensors, one or more")->required();
  app.add_option("--prefill", prefills, "prompt lengths")->delimiter(',');
  app.add_option("--batch", batches, "sequences that decode together")->delimiter(',');
  app.add_option("--steps", steps, "decode steps of one sample");
  app.add_option("--repeats", shared.repeats, "samples of each row");
  app.add_option("--threads", shared.threads, "worker threads (default: all)");
  app.add_option("--isa", shared.isa, "code variant (default: the best)");
  app.add_flag("--json", json, "print JSON instead of a table");
  CLI11_PARSE(app, argc, argv);

  unsigned threads = shared.threads ? shared.threads : std::max(1u, std::thread::hardware_concurrency());
  Limits limits = measureLimits(threads);
  std::vector<ModelResult> results;
  for (const std::string &pair : pairs) {
    size_t equals = pair.find('=');
    ModelRequest request = shared;
    request.artifact = pair.substr(0, equals);
    if (equals != std::string::npos) {
      request.weights = {pair.substr(equals + 1)};
    }
    results.push_back(benchModel(request, prefills, batches, steps));
    if (!results.back().error.empty()) {
      fmt::print(stderr, "smelt-bench: {}: {}\n", request.artifact, results.back().error);
      return SMELT_internal;
    }
  }
  if (json) {
    fmt::print("{}\n", toJson(results, limits, threads).dump(2));
  } else {
    printTable(results, limits, threads);
  }
  return SMELT_ok;
}
