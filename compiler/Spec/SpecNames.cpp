#include "compiler/Spec/SpecNames.h"

namespace smelt::spec {
namespace {

template <typename Enum> std::string_view wordOf(Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < EnumNames<Enum>::names.size() ? EnumNames<Enum>::names[index] : "unknown";
}

} // namespace

std::string_view toString(RouterKind value) { return wordOf(value); }
std::string_view toString(VisitOrder value) { return wordOf(value); }
std::string_view toString(KvCachePolicy value) { return wordOf(value); }
std::string_view toString(FfnKind value) { return wordOf(value); }
std::string_view toString(QkNorm value) { return wordOf(value); }

} // namespace smelt::spec
