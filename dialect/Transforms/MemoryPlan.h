// Which workspace buffer holds each value of a fused forward.
#pragma once

#include "dialect/Transforms/KernelForm.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::smelt {

// Name of the buffer in which attention keeps partial results.
inline constexpr const char *ATTENTION_PARTIALS = "attention_partials";

using KernelForms = llvm::MapVector<FusedOp, KernelForm>;

// The kernels of every fused op of a forward, in program order. Fails with an error at the first op that is
// not a fused op, a segment or a terminator.
FailureOr<KernelForms> kernelForms(ForwardOp forward);

struct WorkspaceBuffer {
  std::string name;
  DType dtype;
  ByteSize size;
};

class MemoryPlan {
public:
  // Fails, with an error at the op, when a value would have to be copied.
  static FailureOr<MemoryPlan> compute(ForwardOp forward, const KernelForms &forms);

  ArrayRef<WorkspaceBuffer> buffers() const { return workspace; }
  // Name of the buffer that holds a value, or the routing plan made from expert indices; empty when none
  // does.
  StringRef bufferOf(Value value) const { return nameAt(ofValue, value); }
  StringRef bufferOfPlan(Value indices) const { return nameAt(ofPlan, indices); }

private:
  friend class MemoryPlanner;
  StringRef nameAt(const llvm::DenseMap<Value, unsigned> &map, Value value) const {
    auto found = map.find(value);
    return found == map.end() ? StringRef() : StringRef(workspace[found->second].name);
  }

  SmallVector<WorkspaceBuffer> workspace;
  llvm::DenseMap<Value, unsigned> ofValue, ofPlan;
};

} // namespace mlir::smelt
