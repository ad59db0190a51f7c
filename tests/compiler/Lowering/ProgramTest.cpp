// What the step program says about segments, slots and memory.
#include "dialect/IR/KernelSignature.h"
#include "tests/compiler/Lowering/LoweredModel.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace mlir::smelt;

namespace smelt::tests {

static std::vector<BlockOp> layeredBlocks(LoweredModel &lowered) {
  std::vector<BlockOp> blocks;
  for (BlockOp block : lowered.all<BlockOp>()) {
    if (block.getLayers() > 0) {
      blocks.push_back(block);
    }
  }
  return blocks;
}

TEST_CASE("a block runs each segment") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const spec::ModelSpec spec = generateSpec(seed);
    LoweredModel lowered(spec, {});
    const auto blocks = layeredBlocks(lowered);
    REQUIRE(blocks.size() == spec.segments.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      BlockOp block = blocks[i];
      CHECK(block.getFirstLayer() == spec.firstLayer(i));
      CHECK(block.getLayers() == spec.segments[i].layers);
      CHECK(block.getVisits() == spec.segments[i].visits);
    }
  }
}

TEST_CASE("each executed layer has a slot of its own, and no slot is left over") {
  for (bool unroll : {false, true}) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      LoweredModel lowered(generateSpec(seed), {.unroll_visits = unroll});
      std::map<std::string, std::set<int64_t>> slots;
      for (BlockOp block : layeredBlocks(lowered)) {
        for (CallOp call : block.getBody().getOps<CallOp>()) {
          if (call.getKernel().getRole() != "rope_append") {
            continue;
          }
          for (BindingAttr binding : call.getBindings().getAsRange<BindingAttr>()) {
            for (int64_t i = 0;
                 binding.getKind() == BindingKind::state_slot && i < block.getLayers() * block.getVisits();
                 ++i) {
              CHECK(slots[binding.getSymbol().getValue().str()].insert(block.getSlotBase() + i).second);
            }
          }
        }
      }
      for (BufferOp buffer : lowered.all<BufferOp>()) {
        if (buffer.getKind() == BufferKind::state) {
          const auto &used = slots[buffer.getSymName().str()];
          CHECK(static_cast<int64_t>(used.size()) == *buffer.getSlots());
          CHECK(*used.rbegin() == *buffer.getSlots() - 1);
        }
      }
    }
  }
}

TEST_CASE("the residual stream stays in one buffer") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    LoweredModel lowered(generateSpec(seed), {});
    for (CallOp call : lowered.all<CallOp>()) {
      const KernelSignature signature = kernelSignature(call.getKernel());
      const auto bindings = call.getBindings().getAsRange<BindingAttr>();
      for (auto [argument, binding] : llvm::zip(signature.arguments, bindings)) {
        const llvm::StringRef name = argument.name;
        if (name == "x_in" || name == "x_out") {
          CHECK(binding.getSymbol().getValue() == "residual");
        }
      }
    }
  }
}

TEST_CASE("workspace does not grow with depth or visits") {
  auto workspace = [](const spec::ModelSpec &spec) {
    LoweredModel lowered(spec, {});
    int64_t bytes = 0;
    for (BufferOp buffer : lowered.all<BufferOp>()) {
      bytes += buffer.getKind() == BufferKind::workspace ? buffer.getSize().getPerToken() : 0;
    }
    return bytes;
  };
  spec::ModelSpec deep = smallSpec();
  deep.segments[1].layers = 12;
  deep.segments[1].visits = 3;
  deep.segments.push_back(deep.segments[0]);
  CHECK(workspace(deep) == workspace(smallSpec()));
}

} // namespace smelt::tests
