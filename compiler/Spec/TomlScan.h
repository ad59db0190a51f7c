// A look over TOML text before the library parses it. TOML that no spec needs is refused here, with its
// place, where it could exhaust the library's stack or reach code of toml++ 3.3 that takes it for impossible.
#pragma once

#include "compiler/Spec/Diagnostics.h"

#include <cstddef>
#include <string_view>

namespace smelt::spec {

inline constexpr size_t kMaxTomlBytes = size_t{1} << 20;
// Outside strings and comments: every dot of a key nests a table.
inline constexpr size_t kMaxTomlDotsPerLine = 64;

// Whether the text may be parsed. Refuses long files, lines with many dots, raw control characters,
// characters beyond ASCII outside strings and comments, and multi-line strings.
bool scanToml(std::string_view text, Diagnostics &diagnostics);

} // namespace smelt::spec
