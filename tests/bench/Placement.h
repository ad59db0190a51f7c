// Where a virtual machine's CPUs are right now. A host may move two vCPUs between cores that share an L3
// cache and cores that do not, for seconds at a time; memory bandwidth and synchronisation differ between the
// two, so samples of different placement must not be compared.
#pragma once

namespace smelt::bench {

enum class Placement { single, shared_cache, split };

struct PlacementProbe {
  Placement placement = Placement::single;
  double seconds = 0; // one way between the two CPUs
};

// Bounces a cache line between CPUs 0 and 1 for about 20 ms. `single` on a machine of one CPU.
PlacementProbe probePlacement();
const char *placementName(Placement placement);

} // namespace smelt::bench
