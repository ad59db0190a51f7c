// From kernel descriptions to PTX, and to machine code where a CUDA toolkit is at hand: MLIR at the level of
// arith, scf, nvvm and llvm, one module per target that holds every function.
#pragma once

#include "compiler/Codegen/CUDA/Target.h"
#include "compiler/Codegen/Common/Kernel.h"

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace smelt::codegen::cuda {

// Which steps a kernel is for. Matrix products are matrix-vector kernels in short steps and tensor-core
// kernels in the others, so one KernelDesc becomes two different functions; those of short steps end in
// "_short".
enum class StepLength { brief /* at most SHORT_STEP_TOKENS tokens */, any };
constexpr int64_t SHORT_STEP_TOKENS = 8;

struct KernelRequest {
  KernelDesc kernel;
  StepLength length = StepLength::any;
};

// Blocks along one dimension of a grid, see GridSize in runtime/schema/manifest.fbs.
struct GridSize {
  int64_t fixed = 1, per_token = 0, per_logit_row = 0, per_position = 0;
  int64_t divisor = 1;
  int64_t limit = 0; // 0: none
};

// One launch of a kernel.
struct Stage {
  std::string function; // in the module of the target
  GridSize grid[3];
  int64_t threads = 0;      // per block
  int64_t shared_bytes = 0; // dynamic shared memory
};

// A matrix product for a library of them, see DeviceGemm in runtime/schema/manifest.fbs; -1: none.
struct GemmStage {
  int64_t weight = 0, outputs = 0, depth = 0, activation_stride = 0;
  int64_t result = -1, column = 0, result_stride = 0;
  int64_t addend = -1, scale = -1;
};
using LibraryStage = std::variant<Stage, GemmStage>;

// Bytes, affine in the sizes of a step as everywhere.
struct ScratchSize {
  int64_t bytes = 0, per_token = 0, per_logit_row = 0, per_position = 0;
};

// What ptxas says about one function; without a toolkit the four counts are -1.
struct FunctionStats {
  std::string function;
  int64_t registers = -1, spill_store_bytes = -1, spill_load_bytes = -1, static_shared_bytes = -1;
  int64_t dynamic_shared_bytes = 0;
};

struct CompiledKernel {
  std::vector<Stage> stages;
  ScratchSize scratch;
  std::vector<LibraryStage> library; // instead of them, where a library multiplies; empty: never
  ScratchSize library_scratch;
};

struct CompiledTarget {
  Target target;
  std::string ptx;
  std::vector<uint8_t> cubin;          // empty without a toolkit or when PTX alone is asked for
  std::vector<CompiledKernel> kernels; // by request
  std::vector<FunctionStats> stats;    // by function, in the order of the module
  std::vector<std::string> warnings;   // of ptxas
};

struct CompileOptions {
  bool ptx_only = false;
  std::function<void(size_t done, size_t total)> progress;
};

// `kernels` may name one kernel several times (programs of a target share them): equal names become one set
// of functions. On failure returns false and says in `error` which kernel and target failed and why.
bool compileKernels(const std::vector<KernelRequest> &requests, const Target &target,
                    const CompileOptions &options, CompiledTarget &result, std::string &error);

enum class TextForm { mlir, llvm, ptx };

// The code of one kernel alone as text, for people: MLIR before lowering, LLVM IR after optimisation, or PTX.
// Appends to `text`.
bool printKernel(const KernelRequest &request, const Target &target, TextForm form, std::string &text,
                 std::string &error);

} // namespace smelt::codegen::cuda
