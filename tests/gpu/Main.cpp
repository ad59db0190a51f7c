// smelt-gpu-check: is a GPU right, and how fast is it? run.sh calls it.
#include "tests/gpu/Check.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>

using namespace smelt::gpu;

namespace {

// "64x2272x1848"
ProductShape parseProduct(const std::string &text) {
  ProductShape shape;
  int end = 0;
  if (std::sscanf(text.c_str(), "%" SCNu64 "x%" SCNu64 "x%" SCNu64 "%n", &shape.rows, &shape.outputs,
                  &shape.depth, &end) != 3 ||
      size_t(end) != text.size() || !shape.rows || !shape.outputs || !shape.depth) {
    throw CLI::ValidationError("--products", text + " is not ROWSxOUTPUTSxDEPTH");
  }
  return shape;
}

// Replaces the file of results: what there is of them.
void save(const std::string &path, const nlohmann::ordered_json &results) {
  if (path.empty()) {
    return;
  }
  std::string partial = path + ".partial";
  std::ofstream file(partial);
  file << results.dump(2) << "\n";
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) {
    throw std::runtime_error(path + ": cannot be written");
  }
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Checks compiled models on a GPU against references, and times them.");
  std::string json, folder;
  std::vector<std::string> artifacts;
  uint64_t readMiB = 4096;
  SpeedOptions options;
  LimitOptions limitOptions;
  app.add_option("--device", options.device, "cuda, or cuda:N")->capture_default_str();
  app.add_option("--numbers", folder,
                 "Folder of cases that prepare.sh made: compare them with their references");
  app.add_option("--speed", artifacts, "Artifacts to time with splat weights");
  app.add_option("--read-mib", readMiB, "Memory to read for the read rate")
      ->capture_default_str()
      ->check(CLI::Range(1, 16383));
  app.add_option("--barrier-rounds", limitOptions.barrierRounds, "Times that the blocks of a grid meet")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--kernels", limitOptions.kernels,
                 "Kernels that smelt-gpu-kernels made: time how their warps share rows");
  app.add_option_function<std::vector<std::string>>(
         "--products",
         [&](const std::vector<std::string> &texts) {
           limitOptions.products.clear();
           for (const std::string &text : texts) {
             limitOptions.products.push_back(parseProduct(text));
           }
         },
         "Products that cuBLASLt is timed with, ROWSxOUTPUTSxDEPTH (default: those of the 1.6B cell for 64 "
         "and "
         "2048 rows)")
      ->delimiter(',');
  app.add_option("--batch", options.batches, "Sequences decoded together")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--prefill", options.prompts, "Prompt lengths")->delimiter(',')->capture_default_str();
  app.add_option("--context", options.context, "Positions held when decoding")->capture_default_str();
  app.add_option("--steps", options.steps, "Decode steps timed")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--chunk", options.chunk, "Most tokens of one step of a prompt")->capture_default_str();
  app.add_option("--json", json, "Write the results here")->type_name("OUT.json");
  CLI11_PARSE(app, argc, argv);
  nlohmann::ordered_json results;
  bool right = true;
  try {
    fmt::print("limits\n");
    limitOptions.device = options.device;
    limitOptions.readBytes = readMiB << 20;
    Limits limits = measureLimits(limitOptions, results);
    save(json, results);
    if (!folder.empty()) {
      fmt::print("numbers\n");
      right = checkNumbers(folder, options.device, results);
      save(json, results);
    }
    for (const std::string &artifact : artifacts) {
      try {
        measureSpeed(artifact, options, limits, results);
      } catch (const std::exception &problem) { // one model that does not fit does not hide the others
        fmt::print("  {}: {}\n", artifact, problem.what());
        results["problems"].push_back({{"what", artifact}, {"problem", problem.what()}});
      }
      save(json, results);
    }
  } catch (const std::exception &problem) {
    fmt::print(stderr, "smelt-gpu-check: error: {}\n", problem.what());
    return 2;
  }
  return !right ? 1 : results.contains("problems") ? 3 : 0;
}
