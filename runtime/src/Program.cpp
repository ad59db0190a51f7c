#include "runtime/src/Program.h"

#include <map>

namespace smelt::runtime {

using namespace artifact;

class Program::Builder {
public:
  Builder(Program &program, const Artifact &artifact, const PackedWeights &weights, const CodeImage &image,
          const MemoryPlan &plan, std::byte *arena, std::byte *state)
      : program(program), manifest(artifact.manifest()), weights(weights), image(image), plan(plan),
        arena(arena), state(state) {}

  void run() {
    ProgramTables tables(manifest);
    std::map<const Call *, size_t> constants; // of each call once, whatever its layers and visits
    forEachCall(tables, [&](const CallPlace &place) {
      auto [first, isNew] = constants.try_emplace(place.call, program.values.size());
      if (isNew) {
        addConstants(*place.call);
      }
      addLaunch(place, first->second);
    });
  }

private:
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

  void addLaunch(const CallPlace &place, size_t firstConstant) {
    Launch &launch = program.list.emplace_back();
    static_cast<CallPlace &>(launch) = place;
    launch.entry = image.entry(place.kernel);
    launch.firstPointer = program.pointers.size();
    launch.firstConstant = firstConstant;
    for (const Binding *binding : *place.call->bindings()) {
      program.pointers.push_back(resolve(*binding, place));
    }
  }

  void *resolve(const Binding &binding, const CallPlace &place) const {
    uint32_t index = binding.index();
    switch (binding.kind()) {
    case BindingKind::buffer:
      return arena + plan.offsets[index];
    case BindingKind::state_slot:
      return state + plan.offsets[index] + plan.strides[index] * place.slot;
    case BindingKind::weight:
      return const_cast<void *>(weights.tensor(index, layerOf(index, place)));
    case BindingKind::weight_table:
      return const_cast<const void **>(weights.table(index, layerOf(index, place)));
    }
    return nullptr;
  }

  uint32_t layerOf(uint32_t index, const CallPlace &place) const {
    return weightLayer(*manifest.weights()->Get(index), place.layer);
  }

  Program &program;
  const Manifest &manifest;
  const PackedWeights &weights;
  const CodeImage &image;
  const MemoryPlan &plan;
  std::byte *arena, *state;
};

Program::Program(const Artifact &artifact, const PackedWeights &weights, const CodeImage &image,
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
