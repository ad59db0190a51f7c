// Steps as CUDA graphs, one for each (T, R) and variant, which tells what else a step does or leaves out: all
// addresses of a session are fixed and what differs from step to step lies in memory, so a graph is captured
// once and replayed.
#pragma once

#include "runtime/src/MemoryPlan.h"
#include "runtime/src/cuda/Device.h"

#include <functional>
#include <map>
#include <tuple>

namespace smelt::runtime::cuda {

class GraphCache {
public:
  GraphCache(DevicePointer device, Stream stream) : device(std::move(device)), stream(stream) {}

  // The step's graph; null for one that is seen for the first time, which is better launched directly than
  // captured for one use. `enqueue` puts the step on the stream.
  Result<GraphExec> find(const Extent &step, unsigned variant, const std::function<Status()> &enqueue);

private:
  struct Entry {
    OwnedGraphExec graph; // empty after the first step
    uint64_t lastUse = 0;
  };
  Result<OwnedGraphExec> capture(const std::function<Status()> &enqueue);
  void dropOldest();

  DevicePointer device;
  Stream stream;
  std::map<std::tuple<uint64_t, uint64_t, unsigned>, Entry> entries; // by tokens, logit rows and variant
  uint64_t uses = 0;
};

} // namespace smelt::runtime::cuda
