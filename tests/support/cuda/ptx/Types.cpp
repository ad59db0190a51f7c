#include "tests/support/cuda/ptx/Ast.h"

#include <utility>

namespace smelt::emu {

uint32_t bytesOf(Type type) {
  switch (type) {
  case Type::Pred:
    return 0;
  case Type::B8:
  case Type::U8:
  case Type::S8:
    return 1;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
  case Type::E4M3x2:
  case Type::E5M2x2:
    return 2;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F64:
  case Type::F32x2:
    return 8;
  case Type::B128:
    return 16;
  default:
    return 4;
  }
}

bool isSigned(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64 ||
         type == Type::S16x2;
}

bool isFloat(Type type) { return type >= Type::F16 && type <= Type::TF32; }

bool parseType(std::string_view text, Type &type) {
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"pred", Type::Pred},     {"b8", Type::B8},         {"b16", Type::B16},     {"b32", Type::B32},
      {"b64", Type::B64},       {"b128", Type::B128},     {"u8", Type::U8},       {"u16", Type::U16},
      {"u32", Type::U32},       {"u64", Type::U64},       {"s8", Type::S8},       {"s16", Type::S16},
      {"s32", Type::S32},       {"s64", Type::S64},       {"f16", Type::F16},     {"f16x2", Type::F16x2},
      {"bf16", Type::BF16},     {"bf16x2", Type::BF16x2}, {"f32", Type::F32},     {"f32x2", Type::F32x2},
      {"f64", Type::F64},       {"tf32", Type::TF32},     {"u16x2", Type::U16x2}, {"s16x2", Type::S16x2},
      {"e4m3x2", Type::E4M3x2}, {"e5m2x2", Type::E5M2x2}};
  for (const auto &[name, value] : kTypes) {
    if (name == text) {
      type = value;
      return true;
    }
  }
  return false;
}

} // namespace smelt::emu
