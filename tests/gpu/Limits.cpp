// What the GPU can do at most, by kernels written for nothing else.
#include "tests/gpu/Limits.h"

#include <fmt/format.h>

namespace smelt::gpu {

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Limits measureLimits(const LimitOptions &options, nlohmann::ordered_json &results) {
  Bench bench(options.device);
  fmt::print("{}\n", bench.device->describe());
  results["gpu"] = {{"name", bench.device->name},
                    {"compute_capability", bench.device->computeCapability},
                    {"memory", bench.device->totalMemory},
                    {"multiprocessors", bench.device->multiprocessors},
                    {"driver", bench.device->api.version}};
  results["skipped"] = nlohmann::ordered_json::array();
  Limits limits;
  // One that cannot be measured does not hide the others.
  auto part = [&](const char *what, const std::function<void()> &measure) {
    try {
      measure();
    } catch (const std::exception &problem) {
      fmt::print("  {}: {}\n", what, problem.what());
      results["problems"].push_back({{"what", what}, {"problem", problem.what()}});
    }
  };
  part("read rate", [&] { limits.readBytesPerSecond = measureReads(bench, options.readBytes, results); });
  part("nodes of a graph", [&] { limits.secondsPerGraphNode = measureGraphNodes(bench, results); });
  part("barrier of a grid", [&] { measureGridBarrier(bench, options.barrierRounds, results); });
  part("products", [&] { measureProducts(bench, options.products, results); });
  if (!options.kernels.empty()) {
    part("rows by how many warps", [&] { measureGemv(bench, options.kernels, results); });
  }
  return limits;
}

} // namespace smelt::gpu
