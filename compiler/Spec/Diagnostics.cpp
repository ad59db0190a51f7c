#include "compiler/Spec/Diagnostics.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::spec {

void Diagnostics::add(Location location, std::string message) {
  entries.push_back({location, std::move(message)});
}

std::vector<Diagnostic> Diagnostics::sorted() const {
  std::vector<Diagnostic> result = entries;
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::string Diagnostics::text() const {
  std::string result;
  for (const Diagnostic &entry : sorted()) {
    if (entry.location.line == 0) {
      result += fmt::format("{}: {}\n", file_name, entry.message);
    } else {
      result +=
          fmt::format("{}:{}:{}: {}\n", file_name, entry.location.line, entry.location.column, entry.message);
    }
  }
  return result;
}

} // namespace smelt::spec
