// Kernels of steps of any length (StepLength::any), one emitter a role; docs/program.md lists bindings and
// constants.
#pragma once

#include "compiler/Codegen/CUDA/Kernels.h"

namespace smelt::codegen::cuda {

// GemmKernels.cpp: rows to bf16, then a product on the tensor cores.
void emitGemmNormLinear(KernelBuilder &);
void emitGemmLinearResidual(KernelBuilder &);
void emitGemmGateUp(KernelBuilder &);

// PrefillRope.cpp
void emitPrefillRopeAppend(KernelBuilder &);

// FlashKernels.cpp: tiles of one sequence's tokens, then a block a tile and key/value head.
void emitFlashAttention(KernelBuilder &);

// PrefillRouting.cpp
void emitPrefillRoute(KernelBuilder &);
void emitPrefillMoePlan(KernelBuilder &);
void emitPrefillCombineResidual(KernelBuilder &);

// GroupedKernels.cpp
void emitGroupedGateUp(KernelBuilder &);
void emitGroupedDown(KernelBuilder &);

} // namespace smelt::codegen::cuda
