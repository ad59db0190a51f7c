// Lifetimes are intervals of positions in the forward, a segment's body counted once: whatever a body needs
// from an earlier run of itself is the residual stream, which lives all along the segment. A kernel reads and
// writes at one position, so intervals that share an end overlap.
#include "dialect/Transforms/MemoryPlan.h"

#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::smelt {

FailureOr<KernelForms> kernelForms(ForwardOp forward) {
  KernelForms forms;
  WalkResult result = forward.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<ForwardOp, SegmentOp, YieldOp, ReturnOp>(op)) {
      return WalkResult::advance();
    }
    auto fused = dyn_cast<FusedOp>(op);
    if (!fused) {
      op->emitOpError("is in no smelt.fused; run smelt-fuse first");
      return WalkResult::interrupt();
    }
    FailureOr<KernelForm> form = kernelForm(fused);
    if (failed(form)) {
      return WalkResult::interrupt();
    }
    forms.insert({fused, std::move(*form)});
    return WalkResult::skip();
  });
  if (result.wasInterrupted()) {
    return failure();
  }
  return std::move(forms);
}

namespace {

// Something that needs memory from position `begin` to `end`, both included.
struct Tenant {
  int64_t begin;
  int64_t end;
  DType dtype;
  ByteSize size;
  bool residual = false; // the stream that segments carry from one run to the next

  bool overlaps(const Tenant &other) const { return begin <= other.end && other.begin <= end; }
};

ByteSize larger(const ByteSize &a, const ByteSize &b) {
  return {std::max(a.bytes, b.bytes), std::max(a.per_token, b.per_token),
          std::max(a.per_logit_row, b.per_logit_row), std::max(a.per_position, b.per_position),
          std::max(a.per_kv_position, b.per_kv_position)};
}

} // namespace

class MemoryPlanner {
public:
  MemoryPlanner(ForwardOp forward, const KernelForms &forms) : forward(forward), forms(forms) {}

  FailureOr<MemoryPlan> run() {
    numberOps();
    for (auto &[fused, form] : forms) {
      addResults(fused, form);
    }
    addSegmentArguments();
    for (auto &[fused, form] : forms) {
      addReads(fused, form);
    }
    addTerminatorReads();
    classes.grow(tenants.size());
    for (auto &[fused, form] : forms) {
      joinInPlace(fused, form);
    }
    if (failed(joinSegments())) {
      return failure();
    }
    assignBuffers(mergeClasses());
    return std::move(plan);
  }

private:
  void numberOps() {
    forward.walk<WalkOrder::PreOrder>([&](Operation *op) {
      positions[op] = next++; // a body's terminator marks the end of its segment
      return isa<FusedOp>(op) ? WalkResult::skip() : WalkResult::advance();
    });
  }
  int64_t position(Operation *op) const { return positions.lookup(op); }

  unsigned addTenant(int64_t at, DType dtype, ByteSize size) {
    tenants.push_back({at, at, dtype, size});
    return tenants.size() - 1;
  }

  // A tenant for each argument that the kernel writes to workspace, and for the plan that follows a routing.
  void addResults(FusedOp fused, const KernelForm &form) {
    for (auto [argument, described] : llvm::zip(form.arguments, form.signature.arguments)) {
      bool toWorkspace = argument.source == ArgumentSource::values &&
                         described.access != KernelAccess::read &&
                         described.size.per_logit_row == 0; // rows of logits have a buffer of their own
      if (!toWorkspace) {
        continue;
      }
      unsigned tenant = addTenant(position(fused), described.dtype, described.size);
      for (Value value : argument.values) {
        ofValue[value] = tenant;
      }
    }
    if (form.role == "route") {
      KernelForm planForm = moePlanForm(form);
      ofPlan[planForm.arguments[1].values[0]] =
          addTenant(position(fused), DType::i32, planForm.signature.arguments[1].size);
    }
  }

  void addSegmentArguments() {
    for (SegmentOp segment : forward.getBody().getOps<SegmentOp>()) {
      Value argument = segment.getBody().getArgument(0);
      ofValue[argument] = addTenant(position(segment), DType::f32, {.per_token = 4 * width(argument)});
      ofValue[segment.getResult()] =
          addTenant(position(segment.getYield()), DType::f32, {.per_token = 4 * width(argument)});
    }
  }

  void read(const llvm::DenseMap<Value, unsigned> &map, Value value, Operation *reader) {
    if (auto found = map.find(value); found != map.end()) {
      tenants[found->second].end = std::max(tenants[found->second].end, position(reader));
    }
  }

  void addReads(FusedOp fused, const KernelForm &form) {
    for (const FormArgument &argument : form.arguments) {
      for (Value value : argument.values) {
        if (argument.source == ArgumentSource::values) {
          read(ofValue, value, fused);
        } else if (argument.source == ArgumentSource::plan) {
          read(ofPlan, value, fused);
        }
      }
    }
  }

  void addTerminatorReads() {
    for (SegmentOp segment : forward.getBody().getOps<SegmentOp>()) {
      read(ofValue, segment.getInput(), segment);
      read(ofValue, segment.getYield().getValues()[0], segment.getYield());
    }
  }

  // A residual write goes on top of its input when nothing reads the input afterwards, nor the kernel itself
  // through another argument.
  void joinInPlace(FusedOp fused, const KernelForm &form) {
    Value in, out;
    SmallVector<Value> others;
    for (auto [argument, described] : llvm::zip(form.arguments, form.signature.arguments)) {
      if (StringRef(described.name) == "x_in") {
        in = argument.values[0];
      } else if (StringRef(described.name) == "x_out") {
        out = argument.values[0];
      } else if (argument.source == ArgumentSource::values) {
        llvm::append_range(others, argument.values);
      }
    }
    auto tenant = ofValue.find(in);
    if (in && out && tenant != ofValue.end() && tenants[tenant->second].end == position(fused) &&
        !llvm::is_contained(others, in)) {
      classes.join(tenant->second, ofValue[out]);
    }
  }

  // The stream enters, leaves and goes round a segment in one buffer.
  LogicalResult joinSegments() {
    for (SegmentOp segment : forward.getBody().getOps<SegmentOp>()) {
      Value argument = segment.getBody().getArgument(0), yielded = segment.getYield().getValues()[0];
      auto input = ofValue.find(segment.getInput());
      auto output = ofValue.find(yielded);
      if (input == ofValue.end() || output == ofValue.end()) {
        return segment.emitOpError("carries a value that is not in workspace");
      }
      if (tenants[input->second].end > position(segment)) {
        return segment.emitOpError("overwrites its input, which is read again after it; no kernel copies");
      }
      unsigned argumentTenant = ofValue[argument];
      int64_t yieldedBegin = tenants[output->second].begin;
      for (auto [index, tenant] :
           llvm::enumerate(tenants)) { // the first of the writes in place that lead there
        if (classes.findLeader(index) == classes.findLeader(output->second)) {
          yieldedBegin = std::min(yieldedBegin, tenant.begin);
        }
      }
      bool sameChain = classes.findLeader(argumentTenant) == classes.findLeader(output->second);
      if (!sameChain && tenants[argumentTenant].end >= yieldedBegin) {
        return segment.emitOpError("still reads the stream it was given when it writes the one it yields; no "
                                   "kernel copies");
      }
      for (unsigned tenant : {argumentTenant, output->second, ofValue[segment.getResult()]}) {
        classes.join(input->second, tenant);
      }
      tenants[argumentTenant].residual = true;
    }
    return success();
  }

  // One tenant for each class of tenants in one place, living from the first to the last of them.
  SmallVector<Tenant> mergeClasses() {
    classes.compress();
    SmallVector<Tenant> merged(classes.getNumClasses(), {INT64_MAX, 0, DType::f32, {}});
    for (auto [index, tenant] : llvm::enumerate(tenants)) {
      Tenant &target = merged[classes[index]];
      target = {std::min(target.begin, tenant.begin), std::max(target.end, tenant.end), tenant.dtype,
                larger(target.size, tenant.size), target.residual || tenant.residual};
    }
    return merged;
  }

  void assignBuffers(ArrayRef<Tenant> merged) {
    SmallVector<unsigned> order = llvm::to_vector(llvm::seq<unsigned>(0, merged.size()));
    llvm::stable_sort(order, [&](unsigned a, unsigned b) {
      return std::pair(merged[a].size.per_token, merged[a].size.bytes) >
             std::pair(merged[b].size.per_token, merged[b].size.bytes);
    });
    SmallVector<SmallVector<unsigned>> tenantsOf;
    SmallVector<unsigned> bufferOf(merged.size());
    for (unsigned tenant : order) {
      auto fits = [&](unsigned buffer) {
        return plan.workspace[buffer].dtype == merged[tenant].dtype &&
               llvm::none_of(tenantsOf[buffer],
                             [&](unsigned other) { return merged[other].overlaps(merged[tenant]); });
      };
      auto candidates = llvm::seq<unsigned>(0, plan.workspace.size());
      auto found = llvm::find_if(candidates, fits);
      unsigned buffer = found == candidates.end() ? plan.workspace.size() : *found;
      if (buffer == plan.workspace.size()) {
        plan.workspace.push_back({"", merged[tenant].dtype, {}});
        tenantsOf.emplace_back();
      }
      plan.workspace[buffer].size = larger(plan.workspace[buffer].size, merged[tenant].size);
      tenantsOf[buffer].push_back(tenant);
      bufferOf[tenant] = buffer;
    }
    nameBuffers(merged, tenantsOf);
    for (auto [value, tenant] : ofValue) {
      plan.ofValue[value] = bufferOf[classes[tenant]];
    }
    for (auto [value, tenant] : ofPlan) {
      plan.ofPlan[value] = bufferOf[classes[tenant]];
    }
  }

  void nameBuffers(ArrayRef<Tenant> merged, ArrayRef<SmallVector<unsigned>> tenantsOf) {
    unsigned streams = 0, others = 0;
    for (auto [buffer, members] : llvm::zip(plan.workspace, tenantsOf)) {
      if (llvm::any_of(members, [&](unsigned tenant) { return merged[tenant].residual; })) {
        buffer.name = streams++ ? "residual" + std::to_string(streams) : "residual";
      } else {
        buffer.name = "workspace" + std::to_string(others++);
      }
    }
  }

  ForwardOp forward;
  const KernelForms &forms;
  int64_t next = 0;
  llvm::DenseMap<Operation *, int64_t> positions;
  SmallVector<Tenant> tenants;
  llvm::DenseMap<Value, unsigned> ofValue, ofPlan;
  llvm::IntEqClasses classes;
  MemoryPlan plan;
};

FailureOr<MemoryPlan> MemoryPlan::compute(ForwardOp forward, const KernelForms &forms) {
  return MemoryPlanner(forward, forms).run();
}

} // namespace mlir::smelt
