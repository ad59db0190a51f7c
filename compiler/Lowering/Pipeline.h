// The lowering from the tensor level to the step program, as named phases.
#pragma once

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace smelt::lowering {

// One pass of the lowering; the module is printable after each.
struct Phase {
  const char *name;        // e.g. "fuse"
  const char *description; // one line, for progress and --help
  void (*add)(mlir::OpPassManager &);
};

// The step programs there are: the one of CPUs, and those of a GPU, where steps of a few tokens have kernels
// of their own.
enum class ProgramKind { cpu, cuda_short, cuda_any };

// In order. Before the first the module is at the tensor level, after the last it is a step program.
llvm::ArrayRef<Phase> phases(ProgramKind kind = ProgramKind::cpu);

// Adds every phase up to and including the one named `last`; all of them when it is empty. The manager is one
// of builtin.module.
void buildLoweringPipeline(mlir::OpPassManager &manager, llvm::StringRef last = "",
                           ProgramKind kind = ProgramKind::cpu);

} // namespace smelt::lowering
