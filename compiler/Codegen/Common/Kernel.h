// A kernel as the step program names it: a role and its compile-time shape. Every target implements the same
// roles; dialect/IR/KernelSignature.h lists their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace smelt::codegen {

// Type of the weights a kernel reads; activations are always f32. Values are those of the `dtype` parameter.
// With i8, which matrices alone are of, vectors (norms, biases) are bf16.
enum class WeightType : int64_t { f32 = 0, bf16 = 1, i8 = 2 };

// How the matrices a kernel reads lie in memory; docs/artifact.md. Values are those of the `layout`
// parameter.
enum class WeightLayout : int64_t { row_major = 0, panel16 = 1 };

struct KernelDesc {
  std::string name;
  std::string role;
  std::map<std::string, int64_t> params;

  // The parameter must be present; a missing one is a bug in the caller and aborts with its name.
  int64_t param(const std::string &key) const;
  WeightType weightType() const { return static_cast<WeightType>(param("dtype")); }
  WeightType vectorType() const { return weightType() == WeightType::i8 ? WeightType::bf16 : weightType(); }
  WeightLayout layout() const; // row_major when the kernel has no such parameter
};

} // namespace smelt::codegen
