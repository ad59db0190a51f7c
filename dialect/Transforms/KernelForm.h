// A fused op as the kernel it becomes: what smelt-plan-memory and smelt-to-kernels need to know of its body.
#pragma once

#include "dialect/IR/KernelSignature.h"
#include "dialect/IR/SmeltOps.h"

namespace mlir::smelt {

// Where an argument of a kernel comes from.
enum class ArgumentSource {
  values, // operands or results of the fused op, side by side in the rows of one buffer
  plan,   // the routing plan made from the expert indices in `values`
  weight, // the family `weight`
  token_ids,
  positions,
  sequence_ids,
  logit_rows,
  rope_table, // of `theta` and `dim`
  k_cache,
  v_cache,
  attention_partials,
};

struct FormArgument {
  ArgumentSource source = ArgumentSource::values;
  SmallVector<Value, 3> values; // seen from outside the fused op
  FlatSymbolRefAttr weight;
  double theta = 0;
  int64_t dim = 0;
};

struct KernelForm {
  StringRef role;
  DictionaryAttr params;
  KernelSignature signature;
  SmallVector<FormArgument, 8> arguments; // one per argument of the signature
  SmallVector<int32_t, 4> immediates;     // values of the signature's immediate constants, in order
};

// The kernel of a fused op. Fails, with an error at the op, when the body is not what the role computes.
FailureOr<KernelForm> kernelForm(FusedOp fused);

// The moe_plan kernel that follows a route kernel: expert indices in, plan out.
KernelForm moePlanForm(const KernelForm &route);

} // namespace mlir::smelt
