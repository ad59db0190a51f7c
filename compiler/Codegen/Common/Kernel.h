// A kernel as the step program names it: a role and its compile-time shape. Every target implements the same
// roles; docs/artifact.md lists their bindings and constants.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace smelt::codegen {

// Type of the weights a kernel reads; activations are always f32. Values are those of the `dtype` parameter.
enum class WeightType : int64_t { f32 = 0, bf16 = 1 };

struct KernelDesc {
  std::string name;
  std::string role;
  std::map<std::string, int64_t> params;

  // The parameter must be present; a missing one is a bug in the caller and aborts with its name.
  int64_t param(const std::string &key) const;
  WeightType weightType() const { return static_cast<WeightType>(param("dtype")); }
};

// Bytes as a function of a step and a session: bytes + per_token * T + per_logit_row * R + per_position * C
// + per_kv_position * S * C (tokens, logit rows, capacity, sequences).
struct SizeFormula {
  uint64_t bytes = 0, per_token = 0, per_logit_row = 0, per_position = 0, per_kv_position = 0;
};

enum class Access : uint8_t { read, write, read_write };

struct KernelBinding {
  Access access;
  SizeFormula size; // what the kernel may touch; of each tensor for weights
};

struct KernelInfo {
  std::vector<KernelBinding> bindings;
  uint32_t constants = 0;
  uint64_t flops_per_row = 0;  // multiply and add count as two
  uint32_t rows_per_token = 1; // top_k for kernels that work on (token, expert) pairs
};

// Bindings, constants and work of a kernel, by its role. Returns false for an unknown role.
bool describeKernel(const KernelDesc &kernel, KernelInfo &info);

// All roles, in a stable order.
const std::vector<std::string> &kernelRoles();

} // namespace smelt::codegen
