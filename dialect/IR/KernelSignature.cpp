#include "dialect/IR/KernelSignature.h"

#include "dialect/IR/KernelRoles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::smelt;

namespace {

const Role *findRole(StringRef name) {
  auto found = llvm::find_if(kernelRoles(), [&](const Role &role) { return name == role.name; });
  return found == kernelRoles().end() ? nullptr : &*found;
}

// Every parameter that is missing, of the wrong type, out of range, or not of the role; one line each.
std::string checkParameters(const Role &role, DictionaryAttr params) {
  SmallVector<std::string> problems;
  for (const RoleParameter &parameter : role.parameters) {
    auto value = params.getAs<IntegerAttr>(parameter.name);
    if (parameter.optional && !params.get(parameter.name)) {
      continue;
    }
    if (!value || !value.getType().isInteger(64)) {
      problems.push_back("role '" + std::string(role.name) + "' needs the parameter '" + parameter.name +
                         "', a 64-bit integer");
    } else if (value.getInt() < parameter.min || value.getInt() > parameter.max) {
      problems.push_back("parameter '" + std::string(parameter.name) + "' is " +
                         std::to_string(value.getInt()) + ", outside " + std::to_string(parameter.min) +
                         ".." + std::to_string(parameter.max));
    }
  }
  if (problems.empty() && RoleValues(params).dtype() == DType::i8 &&
      RoleValues(params).layout() != WeightLayout::panel16) {
    problems.push_back("dtype = 2 (i8) needs layout = 1 (panel16)");
  }
  for (NamedAttribute named : params) {
    StringRef name = named.getName();
    if (llvm::none_of(role.parameters,
                      [&](const RoleParameter &parameter) { return name == parameter.name; })) {
      problems.push_back("role '" + std::string(role.name) + "' has no parameter '" + name.str() + "'");
    }
  }
  return llvm::join(problems, "\n");
}

} // namespace

std::optional<KernelSignature> mlir::smelt::kernelSignature(StringRef roleName, DictionaryAttr params,
                                                            std::string &error) {
  const Role *role = findRole(roleName);
  if (!role) {
    SmallVector<StringRef> names;
    for (const Role &known : kernelRoles()) {
      names.push_back(known.name);
    }
    error = "no kernel role '" + roleName.str() + "'; there are " + llvm::join(names, ", ");
    return std::nullopt;
  }
  error = checkParameters(*role, params);
  if (error.empty()) {
    error = role->check(RoleValues(params));
  }
  if (!error.empty()) {
    return std::nullopt;
  }
  return roleSignature(*role, RoleValues(params));
}

KernelSignature mlir::smelt::kernelSignature(KernelOp kernel) {
  std::string error;
  std::optional<KernelSignature> signature = kernelSignature(kernel.getRole(), kernel.getParams(), error);
  assert(signature && "the kernel has not been verified");
  return *signature;
}

std::string mlir::smelt::kernelName(StringRef roleName, DictionaryAttr params) {
  std::string name = roleName.str();
  const Role *role = findRole(roleName);
  for (const RoleParameter &parameter : role ? role->parameters : std::vector<RoleParameter>()) {
    auto value = params.getAs<IntegerAttr>(parameter.name);
    if (!value) {
      continue;
    }
    if (!parameter.words.empty()) {
      StringRef word = parameter.words[value.getInt()];
      name += word.empty() ? "" : "_" + word.str();
    } else if (value.getInt() != 0) {
      name += "_" + std::string(parameter.prefix) + std::to_string(value.getInt());
    }
  }
  return name;
}

DType mlir::smelt::kvElementType(KvLayout layout) {
  return layout == KvLayout::blocked_f32 ? DType::f32 : DType::bf16;
}

ByteSize mlir::smelt::kvSlotSize(KvLayout layout, int64_t kvHeads, int64_t headDim) {
  switch (layout) {
  case KvLayout::blocked_f32:
    return {.per_kv_position = 4 * kvHeads * headDim};
  case KvLayout::rows_bf16:
    return {.per_kv_position = 2 * kvHeads * static_cast<int64_t>(llvm::alignTo(headDim, 8))};
  case KvLayout::blocked_bf16:
    return {.per_kv_position = 2 * kvHeads * headDim};
  }
  llvm_unreachable("every layout is above");
}

ByteSize mlir::smelt::attentionPartialsSize(int64_t queryHeads, int64_t headDim) {
  constexpr int64_t chunk = 512, fewestTokens = 8;
  int64_t slot = 4 * (static_cast<int64_t>(llvm::alignTo(headDim, 16)) + 16);
  auto perPosition = static_cast<int64_t>(llvm::divideCeil(2 * queryHeads * slot, chunk));
  return {.per_position = fewestTokens * perPosition, .per_kv_position = perPosition};
}

DType mlir::smelt::weightDType(WeightOp weight) {
  Type element = weight.getType().getElementType();
  return element.isInteger(8) ? DType::i8 : element.isBF16() ? DType::bf16 : DType::f32;
}

int64_t mlir::smelt::weightBytes(WeightLayout layout, DType dtype, ArrayRef<int64_t> shape) {
  int64_t bytes = dtype == DType::i8 ? 1 : dtype == DType::bf16 ? 2 : 4;
  if (layout == WeightLayout::row_major) {
    for (int64_t size : shape) {
      bytes *= size;
    }
    // A bf16 scale for 32 codes of a row.
    return dtype == DType::i8 ? bytes + 2 * shape[0] * llvm::divideCeil(shape[1], 32) : bytes;
  }
  // Panels of 16 rows, each of lines of 16 words of 4 bytes; with i8 a line of scales for every 16 of codes.
  int64_t lines = llvm::divideCeil(shape[1] * bytes, 4);
  if (dtype == DType::i8) {
    lines += llvm::divideCeil(lines, 16);
  }
  return llvm::divideCeil(shape[0], 16) * lines * 64;
}

bool ByteSize::covers(const ByteSize &other) const {
  return bytes >= other.bytes && per_token >= other.per_token && per_logit_row >= other.per_logit_row &&
         per_position >= other.per_position && per_kv_position >= other.per_kv_position;
}

ByteSize ByteSize::of(SizeAttr attr) {
  return {attr.getBytes(), attr.getPerToken(), attr.getPerLogitRow(), attr.getPerPosition(),
          attr.getPerKvPosition()};
}

SizeAttr ByteSize::toAttr(MLIRContext *context) const {
  return SizeAttr::get(context, bytes, per_token, per_logit_row, per_position, per_kv_position);
}

std::string ByteSize::str() const {
  const std::pair<int64_t, const char *> terms[] = {
      {bytes, ""}, {per_token, "*T"}, {per_logit_row, "*R"}, {per_position, "*C"}, {per_kv_position, "*S*C"}};
  std::string text;
  for (auto [value, unit] : terms) {
    if (value) {
      text += (text.empty() ? "" : " + ") + std::to_string(value) + unit;
    }
  }
  return text.empty() ? "0" : text;
}
