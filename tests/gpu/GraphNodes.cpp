// What a node of a graph costs: one that does nothing, and one that reads what the node before it wrote, both
// with ordinary and with programmatic edges.
#include "tests/gpu/LaunchModes.h"
#include "tests/gpu/Limits.h"

#include <fmt/format.h>

namespace smelt::gpu {
namespace {

using namespace runtime::cuda;
using nlohmann::ordered_json;

// nothing; add_one: the first thread of the grid adds one to a number.
constexpr const char *ordinary = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry nothing(.param .u64 number)
{
    ret;
}

.visible .entry add_one(.param .u64 number)
{
    .reg .pred %p1;
    .reg .b32 %r<4>;
    .reg .b64 %rd1;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    or.b32 %r1, %r1, %r2;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra done;
    ld.param.u64 %rd1, [number];
    cvta.to.global.u64 %rd1, %rd1;
    ld.global.u32 %r3, [%rd1];
    add.u32 %r3, %r3, 1;
    st.global.u32 [%rd1], %r3;
done:
    ret;
}
)";

// The same for edges over which the next launch begins while this one runs.
constexpr const char *overlapping = R"(
.version 7.8
.target sm_90
.address_size 64

.visible .entry nothing(.param .u64 number)
{
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
    ret;
}

.visible .entry add_one(.param .u64 number)
{
    .reg .pred %p1;
    .reg .b32 %r<4>;
    .reg .b64 %rd1;
    griddepcontrol.launch_dependents;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    or.b32 %r1, %r1, %r2;
    setp.ne.u32 %p1, %r1, 0;
    griddepcontrol.wait;
    @%p1 bra done;
    ld.param.u64 %rd1, [number];
    cvta.to.global.u64 %rd1, %rd1;
    ld.global.u32 %r3, [%rd1];
    add.u32 %r3, %r3, 1;
    st.global.u32 [%rd1], %r3;
done:
    ret;
}
)";

constexpr uint32_t nodes = 270; // six kernels in each of 45 layers

using Launcher = std::function<void(Function, const LaunchShape &, void **)>;

// Seconds a node of a graph of this kernel adds. Every node but those of `nothing` must have added one.
double nodeSeconds(const Bench &bench, Function kernel, bool counts, const Launcher &launch) {
  DeviceMemory number = bench.allocate(4);
  bench.set(number, 0);
  DevicePtr address = number.address();
  void *parameters[] = {&address};
  OwnedGraphExec graph = bench.capture([&] {
    for (uint32_t i = 0; i < nodes; ++i) {
      launch(kernel, {bench.multiprocessors(), 256}, parameters);
    }
  });
  uint32_t runs = 0;
  double seconds = bench.time([&] {
    ++runs;
    bench.replay(graph);
  });
  uint32_t expected = counts ? runs * nodes : 0, counted = bench.download<uint32_t>(number)[0];
  if (counted != expected) {
    throw std::runtime_error(
        fmt::format("a graph of {} nodes that each add one, run {} times, counts {} and not {}", nodes, runs,
                    counted, expected));
  }
  return seconds / nodes;
}

// Both kernels; the seconds of the one that does nothing.
double measureEdges(const Bench &bench, const char *ptx, const std::string &edges, const Launcher &launch,
                    ordered_json &results) {
  OwnedModule module = bench.load(ptx);
  double empty = 0;
  for (bool counts : {false, true}) {
    double seconds =
        nodeSeconds(bench, bench.function(module, counts ? "add_one" : "nothing"), counts, launch);
    const char *work = counts ? "a number read and written" : "nothing";
    std::string what = fmt::format("a node of a graph, {} edges, {}", edges, work);
    fmt::print("  {}: {:.2f} us\n", what, seconds * 1e6);
    results.push_back({{"what", what}, {"edges", edges}, {"work", work}, {"seconds", seconds}});
    empty = counts ? empty : seconds;
  }
  return empty;
}

} // namespace

double measureGraphNodes(const Bench &bench, ordered_json &results) {
  double seconds = measureEdges(
      bench, ordinary, "ordinary",
      [&](Function kernel, const LaunchShape &shape, void **parameters) {
        bench.launch(kernel, shape, parameters);
      },
      results["graph_nodes"]);
  results["seconds_per_graph_node"] = seconds;
  LaunchModes modes(bench);
  std::string whyNot = modes.whyNotProgrammatic();
  if (whyNot.empty()) {
    measureEdges(
        bench, overlapping, "programmatic",
        [&](Function kernel, const LaunchShape &shape, void **parameters) {
          modes.programmatic(kernel, shape, parameters);
        },
        results["graph_nodes"]);
  } else {
    skip(results, "nodes of a graph with programmatic edges", whyNot);
  }
  return seconds;
}

} // namespace smelt::gpu
