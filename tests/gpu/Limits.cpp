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

Limits measureLimits(const std::string &device, uint64_t bytes, nlohmann::ordered_json &results) {
  Bench bench(device);
  fmt::print("{}\n", bench.device->describe());
  results["gpu"] = {{"name", bench.device->name},
                    {"compute_capability", bench.device->computeCapability},
                    {"memory", bench.device->totalMemory},
                    {"multiprocessors", bench.device->multiprocessors},
                    {"driver", bench.device->api.version}};
  results["skipped"] = nlohmann::ordered_json::array();
  Limits limits;
  limits.readBytesPerSecond = measureReads(bench, bytes, results);
  limits.secondsPerGraphNode = measureGraphNodes(bench, results);
  return limits;
}

} // namespace smelt::gpu
