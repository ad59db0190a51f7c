#include "runtime/src/Program.h"

#include "runtime/schema/manifest_generated.h"

namespace smelt::runtime {

using namespace artifact;

class Program::Builder {
public:
  Builder(Program &program, const Artifact &artifact, const BoundWeights &weights, const CodeImage &image,
          const MemoryPlan &plan, std::byte *arena, std::byte *state)
      : program(program), manifest(artifact.manifest()), weights(weights), image(image), plan(plan),
        arena(arena), state(state) {}

  void run() {
    for (blockIndex = 0; blockIndex < manifest.blocks()->size(); ++blockIndex) {
      addBlock(*manifest.blocks()->Get(blockIndex));
    }
  }

private:
  void addBlock(const Block &block) {
    std::vector<size_t> constants;
    for (const Call *call : *block.calls()) {
      constants.push_back(program.values.size());
      addConstants(*call);
    }
    if (block.layers() == 0) {
      return addCalls(block, constants, -1, -1);
    }
    uint32_t outer = block.order() == VisitOrder::block ? block.visits() : block.layers();
    uint32_t inner = block.order() == VisitOrder::block ? block.layers() : block.visits();
    for (uint32_t i = 0; i < outer; ++i) {
      for (uint32_t j = 0; j < inner; ++j) {
        bool blockOrder = block.order() == VisitOrder::block;
        addCalls(block, constants, int32_t(blockOrder ? i : j),
                 int32_t(block.first_layer() + (blockOrder ? j : i)));
      }
    }
  }

  void addConstants(const Call &call) {
    for (const Constant *constant : *call.constants()) {
      switch (constant->kind()) {
      case ConstantKind::immediate:
        program.values.push_back(constant->value());
        continue;
      case ConstantKind::sequence_count:
        program.values.push_back(int32_t(plan.extent.sequences));
        continue;
      case ConstantKind::kv_capacity:
        program.values.push_back(int32_t(plan.extent.capacity));
        continue;
      case ConstantKind::token_count:
        program.tokenCounts.push_back(program.values.size());
        break;
      case ConstantKind::logit_row_count:
        program.rowCounts.push_back(program.values.size());
        break;
      }
      program.values.push_back(0);
    }
  }

  void addCalls(const Block &block, const std::vector<size_t> &constants, int32_t visit, int32_t layer) {
    uint32_t slot = block.slot_base();
    if (layer >= 0) {
      slot += uint32_t(visit) * block.layers() + uint32_t(layer) - block.first_layer();
    }
    for (uint32_t i = 0; i < block.calls()->size(); ++i) {
      const Call &call = *block.calls()->Get(i);
      program.list.push_back({.call = &call,
                              .entry = image.entry(call.kernel()),
                              .firstPointer = program.pointers.size(),
                              .firstConstant = constants[i],
                              .kernel = call.kernel(),
                              .block = blockIndex,
                              .callIndex = i,
                              .visit = visit,
                              .layer = layer,
                              .slot = slot});
      for (const Binding *binding : *call.bindings()) {
        program.pointers.push_back(resolve(*binding, slot, layer));
      }
    }
  }

  void *resolve(const Binding &binding, uint32_t slot, int32_t layer) const {
    uint32_t index = binding.index();
    switch (binding.kind()) {
    case BindingKind::buffer:
      return arena + plan.offsets[index];
    case BindingKind::state_slot:
      return state + plan.offsets[index] + plan.strides[index] * slot;
    case BindingKind::weight:
      return const_cast<void *>(weights.tensor(index, weightLayer(index, layer)));
    case BindingKind::weight_table:
      return const_cast<const void **>(weights.table(index, weightLayer(index, layer)));
    }
    return nullptr;
  }

  uint32_t weightLayer(uint32_t index, int32_t layer) const {
    const Weight &weight = *manifest.weights()->Get(index);
    return weight.layers() ? uint32_t(layer) - weight.first_layer() : 0;
  }

  Program &program;
  const Manifest &manifest;
  const BoundWeights &weights;
  const CodeImage &image;
  const MemoryPlan &plan;
  std::byte *arena, *state;
  uint32_t blockIndex = 0;
};

Program::Program(const Artifact &artifact, const BoundWeights &weights, const CodeImage &image,
                 const MemoryPlan &plan, std::byte *arena, std::byte *state) {
  Builder(*this, artifact, weights, image, plan, arena, state).run();
}

void Program::setStep(const Extent &step) {
  for (size_t index : tokenCounts) {
    values[index] = int32_t(step.tokens);
  }
  for (size_t index : rowCounts) {
    values[index] = int32_t(step.logitRows);
  }
}

} // namespace smelt::runtime
