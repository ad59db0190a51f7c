// The words that specs use for enumerated fields; also used in the dialect, the manifest and reports.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <array>
#include <optional>
#include <string_view>

namespace smelt::spec {

// The words of an enumeration in the order of its values.
template <typename Enum> struct EnumNames;
template <> struct EnumNames<RouterKind> {
  static constexpr std::array<std::string_view, 2> names{"softmax", "sigmoid"};
};
template <> struct EnumNames<VisitOrder> {
  static constexpr std::array<std::string_view, 2> names{"block", "layer"};
};
template <> struct EnumNames<KvCachePolicy> {
  static constexpr std::array<std::string_view, 1> names{"per_visit"};
};
template <> struct EnumNames<FfnKind> {
  static constexpr std::array<std::string_view, 2> names{"moe", "dense"};
};
template <> struct EnumNames<QkNorm> {
  static constexpr std::array<std::string_view, 3> names{"none", "per_head", "full_width"};
};

std::string_view toString(RouterKind value);
std::string_view toString(VisitOrder value);
std::string_view toString(KvCachePolicy value);
std::string_view toString(FfnKind value);
std::string_view toString(QkNorm value);

// The value that a word names, or nothing.
template <typename Enum> std::optional<Enum> fromString(std::string_view word) {
  for (size_t i = 0; i < EnumNames<Enum>::names.size(); ++i) {
    if (EnumNames<Enum>::names[i] == word) {
      return static_cast<Enum>(i);
    }
  }
  return std::nullopt;
}

} // namespace smelt::spec
