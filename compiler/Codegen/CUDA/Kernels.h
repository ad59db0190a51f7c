// The kernel templates: one emitter per role and step length. Each declares its parameters, adds its stages
// and says how much scratch it takes.
#pragma once

#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "compiler/Codegen/CUDA/Emitter.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <string>

namespace smelt::codegen::cuda {

// Blocks and threads of one launch.
struct StageShape {
  GridSize x = {}, y = {}, z = {};
  int64_t threads = 0;
  int64_t min_blocks = 0; // blocks a multiprocessor should hold: bounds registers; 0: no wish
};

// What the code of a stage may use, beside an Emitter.
class StageFrame {
public:
  StageFrame(Emitter &e, mlir::Block &entry, unsigned bindings, unsigned constants)
      : e(e), entry(entry), bindings(bindings), constants(constants) {}

  Value binding(unsigned index);       // pointer into global memory
  Value constantInt(unsigned index);   // i32
  Value constantFloat(unsigned index); // f32, from its bits
  Value scratch();                     // pointer into global memory
  Value ticket(Value index);           // i32 counter in global memory, zero at first, 4096 of them
  Value ticket(int64_t index) { return ticket(e.c(index)); }
  // The next `bytes` of dynamic shared memory, aligned to at most SHARED_ALIGNMENT.
  Value shared(int64_t bytes, int64_t alignment = 16);
  // The same memory as an earlier shared(): what is allocated after a mark may be given up again for others.
  int64_t mark() const { return used; }
  void release(int64_t mark) { used = mark; }

  int64_t sharedBytes() const { return most; }

private:
  Emitter &e;
  mlir::Block &entry;
  unsigned bindings, constants;
  int64_t used = 0, most = 0;
};

constexpr int64_t SHARED_ALIGNMENT = 128;
constexpr int64_t TICKETS = 4096;

class KernelBuilder {
public:
  KernelBuilder(mlir::ModuleOp module, const KernelRequest &request, const Target &target)
      : module(module), request(request), target_(target) {}

  int64_t param(const char *name) const { return request.kernel.param(name); }
  bool has(const char *name) const { return request.kernel.params.count(name) && param(name) != 0; }
  const KernelDesc &desc() const { return request.kernel; }
  const Target &target() const { return target_; }

  // How many bindings and constants the role passes; before any stage.
  void parameters(unsigned bindings, unsigned constants);
  void stage(const StageShape &shape, const std::function<void(Emitter &, StageFrame &)> &body);
  // The form for a library of products, in order: a stage again, a launch of its own, or a product. It starts
  // with the rows that stage 0 leaves in scratch.
  void libraryRows() {
    result.library.push_back(result.stages[0]);
    result.library_scratch = result.scratch;
  }
  void libraryStage(const StageShape &shape, const std::function<void(Emitter &, StageFrame &)> &body);
  void libraryGemm(const GemmStage &gemm) { result.library.push_back(gemm); }
  // The kernel cannot be built for these parameters.
  void fail(const std::string &why) { error_ = why; }

  CompiledKernel result; // emitters set `scratch`
  const std::string &error() const { return error_; }

private:
  Stage emit(const std::string &name, const StageShape &shape,
             const std::function<void(Emitter &, StageFrame &)> &body);

  mlir::ModuleOp module;
  const KernelRequest &request;
  const Target &target_;
  unsigned bindings = 0, constants = 0;
  std::string error_;
};

using KernelEmitter = void (*)(KernelBuilder &kernel);

// Null where this target has no kernel of the role for such steps.
KernelEmitter kernelEmitter(const std::string &role, StepLength length);

// Of those made for short steps, in DecodeKernels.cpp.
KernelEmitter shortKernelEmitter(const std::string &role);

// Decode*: matrix-vector kernels of short steps.
void emitEmbed(KernelBuilder &);  // of any step
void emitArgmax(KernelBuilder &); // of any step
void emitSample(KernelBuilder &); // of any step
void emitNormLinearShort(KernelBuilder &);
void emitLinearResidualShort(KernelBuilder &);
void emitGateUpShort(KernelBuilder &);
void emitNormQkvRope(KernelBuilder &);
void emitAttentionShort(KernelBuilder &);
void emitNormRoute(KernelBuilder &);
void emitExpertsGateUpDirect(KernelBuilder &);
void emitExpertsDownResidual(KernelBuilder &);

} // namespace smelt::codegen::cuda
