// smelt-bench: measures for run.py, one JSON object a line.
#include "smelt/runtime.h"
#include "tests/bench/Limits.h"
#include "tests/bench/Server.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <thread>

using namespace smelt::bench;

namespace {

nlohmann::json toJson(const Limits &limits) {
  return {{"threads", limits.threads},         {"fma_gflops", limits.fma_gflops},
          {"bf16_gflops", limits.bf16_gflops}, {"int16_gops", limits.int16_gops},
          {"read_gbytes", limits.read_gbytes}, {"l3_read_gbytes", limits.l3_read_gbytes}};
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"Measures the machine or a compiled model for tests/bench/run.py."};
  app.require_subcommand(1);
  ModelRequest request;
  std::vector<unsigned> threads = {std::max(1u, std::thread::hardware_concurrency())};
  CLI::App *limits = app.add_subcommand("limits", "Print the machine's limits");
  limits->add_option("--threads", threads, "numbers of threads, one line each")->delimiter(',');
  CLI::App *placement =
      app.add_subcommand("placement", "Probe the placement of the CPUs once per input line");
  CLI::App *model = app.add_subcommand("model", "Run a compiled model as standard input asks");
  model->add_option("MODEL", request.artifact, "MODEL.smelt")->required();
  model->add_option("WEIGHTS", request.weights, "safetensors files")->required();
  model->add_option("--threads", request.threads, "worker threads (default: all)");
  model->add_option("--isa", request.isa, "code variant (default: the best)");
  CLI11_PARSE(app, argc, argv);

  if (*limits) {
    for (unsigned count : threads) {
      fmt::print("{}\n", toJson(measureLimits(count)).dump());
    }
    return SMELT_ok;
  }
  return *placement ? servePlacement() : serveModel(request);
}
