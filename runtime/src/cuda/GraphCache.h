// Steps as CUDA graphs, one for each (T, R): all addresses of a session are fixed and what differs from step
// to step lies in memory, so a graph is captured once and replayed.
#pragma once

#include "runtime/src/MemoryPlan.h"
#include "runtime/src/cuda/Device.h"

#include <functional>
#include <map>

namespace smelt::runtime::cuda {

class GraphCache {
public:
  GraphCache(DevicePointer device, Stream stream) : device(std::move(device)), stream(stream) {}

  // The step's graph; null for one that is seen for the first time, which is better launched directly than
  // captured for one use. `enqueue` puts the step on the stream.
  Result<GraphExec> find(const Extent &step, const std::function<Status()> &enqueue);

private:
  struct Entry {
    OwnedGraphExec graph; // empty after the first step
    uint64_t lastUse = 0;
  };
  Result<OwnedGraphExec> capture(const std::function<Status()> &enqueue);
  void dropOldest();

  DevicePointer device;
  Stream stream;
  std::map<std::pair<uint64_t, uint64_t>, Entry> entries; // by tokens and logit rows
  uint64_t uses = 0;
};

} // namespace smelt::runtime::cuda
