// A step program as its tables: those of the manifest, which CPUs run, or of one program of a device.
#pragma once

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/MemoryPlan.h"

#include <algorithm>

namespace smelt::runtime {

template <typename Table> using Tables = flatbuffers::Vector<flatbuffers::Offset<Table>>;

struct ProgramTables {
  explicit ProgramTables(const artifact::Manifest &manifest)
      : buffers(*manifest.buffers()), kernels(*manifest.kernels()), blocks(*manifest.blocks()),
        weights(*manifest.weights()), vocabSize(manifest.vocab_size()) {}
  ProgramTables(const artifact::Manifest &manifest, const artifact::DeviceProgram &program)
      : buffers(*program.buffers()), kernels(*program.kernels()), blocks(*program.blocks()),
        weights(*manifest.weights()), vocabSize(manifest.vocab_size()) {}

  const Tables<artifact::Buffer> &buffers;
  const Tables<artifact::Kernel> &kernels;
  const Tables<artifact::Block> &blocks;
  const Tables<artifact::Weight> &weights;
  uint32_t vocabSize;
};

// One call of the program at one visit of one layer.
struct CallPlace {
  const artifact::Call *call = nullptr;
  uint32_t kernel = 0, block = 0, callIndex = 0;
  int32_t visit = -1, layer = -1; // -1 outside layers; layer is the physical layer
  uint32_t slot = 0;              // of state buffers
};

// Calls `use` with every CallPlace of the program in the order of execution.
template <typename Use> void forEachCall(const ProgramTables &program, Use use) {
  for (uint32_t b = 0; b < program.blocks.size(); ++b) {
    const artifact::Block &block = *program.blocks.Get(b);
    auto runCalls = [&](int32_t visit, int32_t layer) {
      uint32_t slot = block.slot_base();
      if (layer >= 0) {
        slot += uint32_t(visit) * block.layers() + uint32_t(layer) - block.first_layer();
      }
      for (uint32_t i = 0; i < block.calls()->size(); ++i) {
        const artifact::Call *call = block.calls()->Get(i);
        use(CallPlace{call, call->kernel(), b, i, visit, layer, slot});
      }
    };
    if (block.layers() == 0) {
      runCalls(-1, -1);
      continue;
    }
    bool blockOrder = block.order() == artifact::VisitOrder::block;
    uint32_t outer = blockOrder ? block.visits() : block.layers();
    uint32_t inner = blockOrder ? block.layers() : block.visits();
    for (uint32_t i = 0; i < outer; ++i) {
      for (uint32_t j = 0; j < inner; ++j) {
        runCalls(int32_t(blockOrder ? i : j), int32_t(block.first_layer() + (blockOrder ? j : i)));
      }
    }
  }
}

// Whether a kernel chooses a token for each row of logits, as smelt_draw says: the largest logit, or a draw.
inline bool choosesLargest(const artifact::Kernel &kernel) {
  return kernel.role()->string_view() == "argmax";
}
inline bool drawsTokens(const artifact::Kernel &kernel) { return kernel.role()->string_view() == "sample"; }
inline bool choosesTokens(const artifact::Kernel &kernel) {
  return choosesLargest(kernel) || drawsTokens(kernel);
}

// The index of a weight's tensors at a physical layer: layers count from the weight's first one.
inline uint32_t weightLayer(const artifact::Weight &weight, int32_t layer) {
  return weight.layers() ? uint32_t(layer) - weight.first_layer() : 0;
}

// Indices of the buffers the runtime fills and reads; -1 when the program has none.
struct StepInterface {
  explicit StepInterface(const Tables<artifact::Buffer> &buffers) {
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      switch (buffers.Get(i)->kind()) {
      case artifact::BufferKind::token_ids:
        tokenIds = int(i);
        break;
      case artifact::BufferKind::positions:
        positions = int(i);
        break;
      case artifact::BufferKind::sequence_ids:
        sequenceIds = int(i);
        break;
      case artifact::BufferKind::logit_rows:
        logitRows = int(i);
        break;
      case artifact::BufferKind::logits:
        logits = int(i);
        break;
      case artifact::BufferKind::draws:
        draws = int(i);
        break;
      case artifact::BufferKind::sampled:
        sampled = int(i);
        break;
      case artifact::BufferKind::workspace:
      case artifact::BufferKind::state:
      case artifact::BufferKind::rope_table:
        break;
      }
    }
  }
  int tokenIds = -1, positions = -1, sequenceIds = -1, logitRows = -1, logits = -1, draws = -1, sampled = -1;
};

// What a probe is told about binding `index` of a call in a step of this extent, apart from the data; nullopt
// when the kernel does not write it.
std::optional<smelt_probe> probeOf(const ProgramTables &program, const CallPlace &place, uint32_t index,
                                   const Extent &step);

} // namespace smelt::runtime
