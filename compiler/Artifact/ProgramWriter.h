// The parts of a step program in a manifest: buffers, kernels and blocks. Symbols become indices in the order
// of their operations.
#pragma once

#include "dialect/IR/SmeltOps.h"
#include "dialect/IR/SmeltProgramOps.h"
#include "runtime/schema/manifest_generated.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <vector>

namespace smelt::artifact {

template <typename T> using TableOf = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<T>>>;
using WeightIndex = llvm::StringMap<uint32_t>; // of the manifest's weights, by symbol

class ProgramWriter {
public:
  // `scratch`: bytes per worker of each kernel; empty when no code for workers goes with the program.
  ProgramWriter(flatbuffers::FlatBufferBuilder &builder, mlir::smelt::ModelOp model,
                const WeightIndex &weights, const std::vector<uint64_t> &scratch)
      : builder(builder), model(model), weights(weights), scratch(scratch) {}

  // In this order: blocks name buffers and kernels.
  TableOf<Buffer> buffers();
  TableOf<Kernel> kernels();
  TableOf<Block> blocks(mlir::smelt::ProgramOp program);

private:
  flatbuffers::Offset<Call> call(mlir::smelt::CallOp op);

  flatbuffers::FlatBufferBuilder &builder;
  mlir::smelt::ModelOp model;
  const WeightIndex &weights;
  const std::vector<uint64_t> &scratch;
  llvm::StringMap<uint32_t> bufferIndex, kernelIndex;
};

// The only model of a module and its program; null when there is none.
mlir::smelt::ModelOp modelOf(mlir::ModuleOp module);
mlir::smelt::ProgramOp programOf(mlir::smelt::ModelOp model);

} // namespace smelt::artifact
