// The roles of kernels: what KernelSignature.cpp reads. One entry a role, in KernelRoles.cpp.
#pragma once

#include "dialect/IR/KernelSignature.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::smelt {

// A parameter of a role. Its label in kernel names is `prefix` followed by the value, or, when `words` are
// given, the word of the value (an empty word leaves the name as it is).
struct RoleParameter {
  const char *name;
  int64_t min;
  int64_t max;
  const char *prefix;
  std::vector<const char *> words = {};
  bool optional = false; // absent means 0, and 0 is written as absence
};

// The parameters by name, once they are known to fit the role.
class RoleValues {
public:
  explicit RoleValues(DictionaryAttr params) : params(params) {}
  int64_t operator[](StringRef name) const {
    auto value = params.getAs<IntegerAttr>(name);
    return value ? value.getInt() : 0;
  }
  // Of the matrices.
  DType dtype() const {
    constexpr DType types[] = {DType::f32, DType::bf16, DType::i8};
    return types[(*this)["dtype"]];
  }
  // Of vectors beside them: norms and biases, which i8 models keep in bf16.
  DType vectorType() const { return dtype() == DType::i8 ? DType::bf16 : dtype(); }
  WeightLayout layout() const { return static_cast<WeightLayout>((*this)["layout"]); }

private:
  DictionaryAttr params;
};

class SignatureBuilder; // of KernelRoles.cpp

// One role: its parameters, what must hold between them (an empty string when it does), and its arguments.
struct Role {
  const char *name;
  std::vector<RoleParameter> parameters;
  std::string (*check)(const RoleValues &);
  void (*build)(const RoleValues &, SignatureBuilder &);
};

const std::vector<Role> &kernelRoles();
// Of parameters that fit the role.
KernelSignature roleSignature(const Role &role, const RoleValues &values);

} // namespace mlir::smelt
