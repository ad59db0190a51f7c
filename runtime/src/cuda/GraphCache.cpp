#include "runtime/src/cuda/GraphCache.h"

#include <algorithm>

namespace smelt::runtime::cuda {
namespace {

constexpr size_t maxEntries = 256; // a graph of 500 nodes takes about a megabyte

} // namespace

Result<GraphExec> GraphCache::find(const Extent &step, unsigned variant,
                                   const std::function<Status()> &enqueue) {
  auto [place, isNew] = entries.try_emplace({step.tokens, step.logitRows, variant});
  place->second.lastUse = ++uses;
  if (isNew) {
    dropOldest();
    return GraphExec(nullptr);
  }
  if (!place->second.graph) {
    Result<OwnedGraphExec> graph = capture(enqueue);
    if (!graph.ok()) {
      return graph.takeStatus();
    }
    place->second.graph = std::move(*graph);
  }
  return place->second.graph.get();
}

Result<OwnedGraphExec> GraphCache::capture(const std::function<Status()> &enqueue) {
  const DriverApi &api = device->api;
  Status status =
      device->check(api.streamBeginCapture(stream, capture_mode_thread_local), "begin to capture a step");
  if (!status.ok()) {
    return status;
  }
  status = enqueue();
  Graph handle = nullptr;
  Status end = device->check(api.streamEndCapture(stream, &handle), "capture a step");
  OwnedGraph graph(device, handle);
  if (!status.ok() || !end.ok()) {
    return status.ok() ? end : status;
  }
  GraphExec exec = nullptr;
  if (Status made = device->check(api.graphInstantiate(&exec, graph.get(), 0), "make a graph of a step");
      !made.ok()) {
    return made;
  }
  return OwnedGraphExec(device, exec);
}

void GraphCache::dropOldest() {
  if (entries.size() > maxEntries) {
    entries.erase(std::min_element(entries.begin(), entries.end(), [](const auto &a, const auto &b) {
      return a.second.lastUse < b.second.lastUse;
    }));
  }
}

} // namespace smelt::runtime::cuda
