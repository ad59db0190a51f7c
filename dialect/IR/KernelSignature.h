// What each kernel role takes: the one table that the verifiers, smelt-to-kernels, the artifact writer and
// the code generators read. docs/program.md prints it.
#pragma once

#include "dialect/IR/SmeltOps.h"
#include "dialect/IR/SmeltProgramOps.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mlir::smelt {

// Bytes, affine in the sizes of a step; see SizeAttr for the terms.
struct ByteSize {
  int64_t bytes = 0;
  int64_t per_token = 0;
  int64_t per_logit_row = 0;
  int64_t per_position = 0;
  int64_t per_kv_position = 0;

  // Whether a buffer of this size holds one of the other size for every T, R, C and S.
  bool covers(const ByteSize &other) const;
  bool operator==(const ByteSize &) const = default;
  static ByteSize of(SizeAttr attr);
  SizeAttr toAttr(MLIRContext *context) const;
  // For messages, e.g. "4 + 128*T".
  std::string str() const;
};

enum class KernelAccess { read = 0, write = 1, read_write = 2 };

DType kvElementType(KvLayout layout);
// Bytes of one slot of keys, and of values.
ByteSize kvSlotSize(KvLayout layout, int64_t kvHeads, int64_t headDim);
// What attention of a CPU keeps of the chunks of positions that workers share: for each of max(8, S) tokens,
// chunk of 512 positions and query head one slot of head_dim f32, rounded up to 16, and 16 more. A token of
// one chunk needs none, so with C > 512 twice C / 512 chunks are enough.
ByteSize attentionPartialsSize(int64_t queryHeads, int64_t headDim);

DType weightDType(WeightOp weight);
// Bytes of a tensor in a layout, its padding included; of i8 its scales as well.
int64_t weightBytes(WeightLayout layout, DType dtype, ArrayRef<int64_t> shape);

// One memory argument.
struct KernelArgument {
  const char *name;
  BindingKind kind;
  KernelAccess access;
  DType dtype;
  ByteSize size;                                 // what the kernel may touch; of each tensor for weights
  int64_t experts = 0;                           // of weight tables
  WeightLayout layout = WeightLayout::row_major; // of weights
};

// One 32-bit constant.
struct KernelConstant {
  const char *name;
  ConstantKind kind;
};

struct KernelSignature {
  SmallVector<KernelArgument, 8> arguments;
  SmallVector<KernelConstant, 4> constants;
  int64_t flops_per_row = 0;   // 0 when negligible or not constant (attention)
  int64_t rows_per_token = 1;  // top_k for kernels over (token, expert) pairs
  int64_t flops_per_token = 0; // besides those of the rows
};

// The signature of a kernel. An unknown role or parameters that do not fit the role (missing, superfluous,
// not 64-bit integers, out of range) leave every problem in `error`, one per line.
std::optional<KernelSignature> kernelSignature(StringRef role, DictionaryAttr params, std::string &error);

// The signature of a kernel that has been verified.
KernelSignature kernelSignature(KernelOp kernel);

// A readable name, the same for the same role and params and different for different ones,
// e.g. "norm_linear_h1056_o1056_o176_o176_bf16".
std::string kernelName(StringRef role, DictionaryAttr params);

} // namespace mlir::smelt
