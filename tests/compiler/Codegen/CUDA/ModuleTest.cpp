// What the code generator does about defects of LLVM and MLIR 22, each of which is silent.
#include "compiler/Codegen/CUDA/KernelModule.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <catch2/catch.hpp>

#include <functional>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;

namespace {

using Body = std::function<void(Emitter &, StageFrame &)>;

// The PTX of a stage with one binding and one constant; empty, with `error`, if it is refused.
std::string ptxOf(const Body &body, std::string &error, const StageShape &shape = {.threads = 64}) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  loadKernelDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  KernelRequest request;
  request.kernel.name = "k";
  const Target &target = *findTarget("sm_90a");
  KernelBuilder builder(*module, request, target);
  builder.parameters(1, 1);
  builder.stage(shape, body);
  std::string ptx;
  llvm::LLVMContext llvmContext;
  auto machine = createTargetMachine(target, error);
  if (!machine || !lowerToLLVMDialect(*module, error)) {
    return {};
  }
  auto llvmModule = toOptimizedLLVM(*module, llvmContext, *machine, error);
  return llvmModule && emitPtx(*llvmModule, *machine, ptx, error) ? ptx : std::string();
}

size_t count(const std::string &text, const std::string &what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

// if (c) a; body; if (c) b: an optimiser that may copy the body makes one branch of the two.
Body betweenBranches(const std::function<Value(Emitter &, StageFrame &)> &body) {
  return [=](Emitter &e, StageFrame &frame) {
    Value half = e.less(e.lane(), frame.constantInt(0));
    e.when(half, [&] { e.storeF32(e.f(1), frame.binding(0), e.thread()); });
    Value value = body(e, frame);
    e.when(half, [&] { e.storeF32(value, frame.binding(0), e.add(e.thread(), 64)); });
  };
}

} // namespace

TEST_CASE("an mma stays one instruction of the whole warp") {
  std::string error;
  std::string ptx =
      ptxOf(betweenBranches([](Emitter &e, StageFrame &frame) {
              llvm::SmallVector<Type> floats(4, e.f32());
              Type result = mlir::LLVM::LLVMStructType::getLiteral(e.builder.getContext(), floats);
              Values operands(6, frame.constantInt(0));
              operands.append(4, e.f(0));
              auto call = mlir::LLVM::CallIntrinsicOp::create(
                  e.builder, e.loc, result, e.builder.getStringAttr("llvm.nvvm.mma.m16n8k16.row.col.bf16"),
                  operands);
              return mlir::LLVM::ExtractValueOp::create(e.builder, e.loc, call.getResult(0), 0).getResult();
            }),
            error);
  INFO(error);
  CHECK(count(ptx, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") == 1);
}

TEST_CASE("inline PTX stays one instruction of the whole warp") {
  std::string error;
  std::string ptx = ptxOf(betweenBranches([](Emitter &e, StageFrame &) {
                            return e.asmPtx("activemask.b32 $0;", "=r", {}, {e.f32()})[0];
                          }),
                          error);
  INFO(error);
  CHECK(count(ptx, "activemask.b32") == 1);
}

TEST_CASE("shared memory is dynamic and external, whatever its uses") {
  std::string error;
  std::string ptx = ptxOf(
      [](Emitter &e, StageFrame &frame) {
        Value a = frame.shared(4), b = frame.shared(256, 128);
        e.store(e.thread(), e.at(b, e.i32(), e.thread()), 4);
        e.barrier();
        e.store(e.add(e.loadI32(b, e.xori(e.thread(), 1)), e.loadI32(a, e.c(0))),
                e.at(frame.binding(0), e.i32(), e.thread()), 4);
        CHECK(frame.sharedBytes() == 128 + 256);
        int64_t mark = frame.mark();
        frame.shared(64);
        frame.release(mark);
        frame.shared(32);
        CHECK(frame.sharedBytes() == 128 + 256 + 64);
      },
      error);
  INFO(error);
  CHECK(count(ptx, ".extern .shared .align 128 .b8 smelt_shared[]") == 1);
  CHECK(count(ptx, ".shared .align") == 1);
}

TEST_CASE("thread counts and blocks per multiprocessor reach the PTX") {
  std::string error;
  StageShape shape{.threads = 96, .min_blocks = 3};
  std::string ptx = ptxOf(
      [](Emitter &e, StageFrame &frame) { e.storeF32(e.f(0), frame.binding(0), e.thread()); }, error, shape);
  INFO(error);
  CHECK(count(ptx, ".reqntid 96") == 1);
  CHECK(count(ptx, ".minnctapersm 3") == 1);
}

TEST_CASE("a call out of the module is refused by name") {
  std::string error;
  std::string ptx = ptxOf(
      [](Emitter &e, StageFrame &frame) {
        auto module = frame.binding(0).getParentBlock()->getParentOp()->getParentOfType<mlir::ModuleOp>();
        mlir::OpBuilder outside(module.getBody(), module.getBody()->begin());
        auto type = mlir::LLVM::LLVMFunctionType::get(e.f32(), {e.f32()});
        auto callee = mlir::LLVM::LLVMFuncOp::create(outside, e.loc, "__nv_expf", type);
        Value result = mlir::LLVM::CallOp::create(e.builder, e.loc, callee, ValueRange(e.f(1))).getResult();
        e.storeF32(result, frame.binding(0), e.thread());
      },
      error);
  CHECK(ptx.empty());
  CHECK_THAT(error, Catch::Contains("__nv_expf"));
}
