// From kernel descriptions to machine code: MLIR, LLVM, one position-independent image per ISA level.
#pragma once

#include "compiler/Codegen/CPU/IsaLevel.h"
#include "compiler/Codegen/Common/Kernel.h"

#include <functional>
#include <string>
#include <vector>

namespace smelt::codegen::cpu {

// Machine code of every kernel for one ISA level. It needs no relocation: the image may be copied anywhere.
struct CodeImage {
  std::string isa;
  uint64_t features = 0; // SMELT_CPU_* bits
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> entries; // by kernel: offset of its entry
};

struct CompiledKernels {
  std::vector<CodeImage> images;            // in the order of the levels asked for
  std::vector<uint64_t> scratch_bytes;      // by kernel: the most any level needs per worker
  std::vector<std::vector<double>> seconds; // by kernel, then by level: compile time of one thread
};

struct CompileOptions {
  unsigned threads = 0;                                    // 0: one per core
  std::function<void(size_t done, size_t total)> progress; // called from one thread at a time
};

// On failure returns false and says in `error` which kernel and level failed and why: always a bug of ours,
// as every kernel a valid spec leads to must compile.
bool compileKernels(const std::vector<KernelDesc> &kernels, const std::vector<const IsaLevel *> &levels,
                    const CompileOptions &options, CompiledKernels &result, std::string &error);

enum class TextForm { mlir, llvm, assembly };

// The code of one kernel for one level as text, for people: MLIR before lowering, LLVM IR after optimisation,
// or assembly.
bool printKernel(const KernelDesc &kernel, const IsaLevel &level, TextForm form, std::string &text,
                 std::string &error);

} // namespace smelt::codegen::cpu
