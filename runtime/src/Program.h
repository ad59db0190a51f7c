// The step program, unrolled once over visits and layers into launches whose pointers are all resolved, so
// that a step only walks a list.
#pragma once

#include "runtime/src/CodeImage.h"
#include "runtime/src/ProgramTables.h"
#include "runtime/src/WeightPacking.h"

#include <vector>

namespace smelt::runtime {

struct Launch : CallPlace {
  smelt_kernel_fn entry = nullptr;
  size_t firstPointer = 0, firstConstant = 0; // into Program::pointers and Program::constants
};

class Program {
public:
  Program() = default;
  Program(const Artifact &artifact, const PackedWeights &weights, const CodeImage &image,
          const MemoryPlan &plan, std::byte *arena, std::byte *state);

  const std::vector<Launch> &launches() const { return list; }
  void *const *bindings(const Launch &launch) const { return pointers.data() + launch.firstPointer; }
  const int32_t *constants(const Launch &launch) const { return values.data() + launch.firstConstant; }
  // Sets the constants that differ from step to step.
  void setStep(const Extent &step);

private:
  class Builder;

  std::vector<Launch> list;
  std::vector<void *> pointers;
  std::vector<int32_t> values;                // of each call once, whatever its layers and visits
  std::vector<size_t> tokenCounts, rowCounts; // the ones that setStep fills
};

} // namespace smelt::runtime
