#include "tests/compiler/Lowering/Trace.h"

#include "dialect/IR/KernelSignature.h"
#include "dialect/Transforms/KernelForm.h"

#include <functional>
#include <map>
#include <stdexcept>

using namespace mlir;
using namespace mlir::smelt;

namespace smelt::tests {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x7F4A7C15F39CC060u + (a << 6) + (a >> 2));
  x ^= x >> 31;
  return x * 0xBF58476D1CE4E5B9u;
}

uint64_t hashText(llvm::StringRef text) {
  uint64_t hash = 14695981039346656037u;
  for (char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  return hash;
}

// A weight is known by the tensor that the layer uses.
uint64_t hashWeight(Operation *user, FlatSymbolRefAttr symbol, int64_t layer) {
  auto weight = SymbolTable::lookupNearestSymbolFrom<WeightOp>(user, symbol);
  return hashText(weight.tensorName(layer, 0));
}

// Runs the body of a loop for every executed layer in order.
void forEachExecutedLayer(int64_t first, int64_t layers, int64_t visits, VisitOrder order,
                          const std::function<void(int64_t layer, int64_t visit)> &run) {
  const int64_t outer = order == VisitOrder::block ? visits : layers;
  const int64_t inner = order == VisitOrder::block ? layers : visits;
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      order == VisitOrder::block ? run(first + j, i) : run(first + i, j);
    }
  }
}

bool isWritten(const KernelArgument &argument) {
  // What a cache held before the step is not part of the trace.
  return argument.access != KernelAccess::read;
}

// The number of a call from those of what it reads; immediates count, sizes are in the kernel's name.
class CallHash {
public:
  explicit CallHash(llvm::StringRef kernel) : hash(hashText(kernel)) {}
  void read(uint64_t value) { hash = mix(hash, value); }
  uint64_t result(size_t argument) const { return mix(hash, 1000 + argument); }

private:
  uint64_t hash;
};

class ForwardTrace {
public:
  uint64_t run(ModelOp model) {
    Block &body = model.getForward().getBody().front();
    values[body.getArgument(0)] = hashText("token_ids");
    for (Operation &op : body.without_terminator()) {
      if (auto segment = dyn_cast<SegmentOp>(op)) {
        runSegment(segment);
      } else {
        runFused(cast<FusedOp>(op), 0);
      }
    }
    return values.at(cast<ReturnOp>(body.getTerminator()).getLogits());
  }

private:
  void runSegment(SegmentOp segment) {
    values[segment.getBody().getArgument(0)] = values.at(segment.getInput());
    forEachExecutedLayer(segment.getFirstLayer(), segment.layerCount(), segment.getVisits(),
                         segment.getOrder(), [&](int64_t layer, int64_t) {
                           for (FusedOp fused : segment.getBody().getOps<FusedOp>()) {
                             runFused(fused, layer);
                           }
                           values[segment.getBody().getArgument(0)] =
                               values.at(segment.getYield().getValues()[0]);
                         });
    values[segment.getResult()] = values.at(segment.getBody().getArgument(0));
  }

  void runFused(FusedOp fused, int64_t layer) {
    KernelForm form = *kernelForm(fused);
    runKernel(fused, form, layer);
    if (form.role == "route") {
      runKernel(fused, moePlanForm(form), layer);
    }
  }

  void runKernel(FusedOp fused, const KernelForm &form, int64_t layer) {
    CallHash call(kernelName(form.role, form.params));
    for (int32_t immediate : form.immediates) {
      call.read(static_cast<uint32_t>(immediate));
    }
    for (auto [argument, described] : llvm::zip(form.arguments, form.signature.arguments)) {
      if (!isWritten(described)) {
        call.read(readArgument(fused, argument, layer));
      }
    }
    for (size_t i = 0; i < form.arguments.size(); ++i) {
      if (isWritten(form.signature.arguments[i])) {
        for (Value value : form.arguments[i].values) {
          (form.arguments[i].source == ArgumentSource::plan ? plans : values)[value] = call.result(i);
        }
      }
    }
  }

  uint64_t readArgument(FusedOp fused, const FormArgument &argument, int64_t layer) {
    switch (argument.source) {
    case ArgumentSource::weight:
      return hashWeight(fused, argument.weight, layer);
    case ArgumentSource::plan:
      return plans.at(argument.values[0]);
    case ArgumentSource::values:
    case ArgumentSource::k_cache:
    case ArgumentSource::v_cache: {
      uint64_t first = values.at(argument.values[0]);
      for (Value value : argument.values) { // side by side in one buffer: written by one kernel
        if (values.at(value) != first) {
          throw std::runtime_error("an argument joins the results of several kernels");
        }
      }
      return first;
    }
    case ArgumentSource::rope_table:
      return hashText("rope " + std::to_string(argument.theta) + " " + std::to_string(argument.dim));
    case ArgumentSource::token_ids:
      return hashText("token_ids");
    case ArgumentSource::positions:
      return hashText("positions");
    case ArgumentSource::sequence_ids:
      return hashText("sequence_ids");
    case ArgumentSource::logit_rows:
      return hashText("logit_rows");
    }
    llvm_unreachable("every source is above");
  }

  struct ByPointer {
    bool operator()(Value a, Value b) const { return a.getAsOpaquePointer() < b.getAsOpaquePointer(); }
  };
  std::map<Value, uint64_t, ByPointer> values, plans;
};

class ProgramTrace {
public:
  explicit ProgramTrace(ModelOp model) : model(model) {}

  uint64_t run() {
    ProgramOp program = *model.getBody().getOps<ProgramOp>().begin();
    for (BlockOp block : program.getBody().getOps<BlockOp>()) {
      if (block.getLayers() == 0) {
        runCalls(block, 0, 0);
        continue;
      }
      forEachExecutedLayer(block.getFirstLayer(), block.getLayers(), block.getVisits(), block.getOrder(),
                           [&](int64_t layer, int64_t visit) {
                             int64_t offset = visit * block.getLayers() + layer - block.getFirstLayer();
                             runCalls(block, layer, block.getSlotBase() + offset);
                           });
    }
    return memory.at("logits");
  }

private:
  void runCalls(BlockOp block, int64_t layer, int64_t slot) {
    for (CallOp op : block.getBody().getOps<CallOp>()) {
      const KernelSignature signature = kernelSignature(op.getKernel());
      auto bindings = llvm::to_vector(op.getBindings().getAsRange<BindingAttr>());
      CallHash call(op.getCallee());
      for (ConstantAttr constant : op.getConstants().getAsRange<ConstantAttr>()) {
        if (constant.getKind() == ConstantKind::immediate) {
          call.read(static_cast<uint32_t>(constant.getValue()));
        }
      }
      for (auto [argument, binding] : llvm::zip(signature.arguments, bindings)) {
        if (!isWritten(argument)) {
          call.read(read(op, binding, layer, slot));
        }
      }
      for (size_t i = 0; i < bindings.size(); ++i) {
        if (isWritten(signature.arguments[i])) {
          memory[place(bindings[i], slot)] = call.result(i);
        }
      }
    }
  }

  uint64_t read(CallOp op, BindingAttr binding, int64_t layer, int64_t slot) {
    if (binding.getKind() == BindingKind::weight || binding.getKind() == BindingKind::weight_table) {
      return hashWeight(op, binding.getSymbol(), layer);
    }
    auto buffer = SymbolTable::lookupNearestSymbolFrom<BufferOp>(op, binding.getSymbol());
    if (std::optional<RopeAttr> rope = buffer.getRope()) {
      return hashText("rope " + std::to_string(rope->getTheta().getValueAsDouble()) + " " +
                      std::to_string(rope->getDim()));
    }
    if (buffer.getKind() == BufferKind::workspace || buffer.getKind() == BufferKind::state) {
      return memory.at(place(binding, slot));
    }
    return hashText(stringifyBufferKind(buffer.getKind()));
  }

  static std::string place(BindingAttr binding, int64_t slot) {
    std::string name = binding.getSymbol().getValue().str();
    return binding.getKind() == BindingKind::state_slot ? name + "#" + std::to_string(slot) : name;
  }

  ModelOp model;
  std::map<std::string, uint64_t> memory;
};

} // namespace

uint64_t traceForward(ModelOp model) { return ForwardTrace().run(model); }
uint64_t traceProgram(ModelOp model) { return ProgramTrace(model).run(); }

} // namespace smelt::tests
