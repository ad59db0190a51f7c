// What a node of a graph costs.
#include "tests/gpu/Limits.h"

#include <fmt/format.h>

namespace smelt::gpu {
namespace {

using namespace runtime::cuda;

constexpr const char *ptx = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry nothing()
{
    ret;
}
)";

} // namespace

double measureGraphNodes(const Bench &bench, nlohmann::ordered_json &results) {
  constexpr int nodes = 270; // six kernels in each of 45 layers
  OwnedModule module = bench.load(ptx);
  Function nothing = bench.function(module, "nothing");
  OwnedGraphExec graph = bench.capture([&] {
    for (int i = 0; i < nodes; ++i) {
      bench.launch(nothing, {bench.multiprocessors(), 256}, nullptr);
    }
  });
  double seconds = bench.time([&] { bench.replay(graph); }) / nodes;
  fmt::print("  a node of a graph: {:.2f} us\n", seconds * 1e6);
  results["seconds_per_graph_node"] = seconds;
  return seconds;
}

} // namespace smelt::gpu
