#include "compiler/Driver/SpecInput.h"

#include "compiler/Driver/UserError.h"
#include "compiler/Spec/SpecReader.h"

#include <fmt/format.h>

namespace smelt::driver {

spec::ModelSpec loadSpec(const std::string &path) {
  spec::SpecResult result = spec::readSpecFile(path);
  if (result) {
    return std::move(*result.spec);
  }
  std::string problems = result.diagnostics.text();
  if (result.status != SMELT_spec) {
    throw UserError(result.status, problems);
  }
  size_t count = result.diagnostics.size();
  throw UserError(SMELT_spec,
                  fmt::format("'{}' has {} problem{}:\n{}", path, count, count == 1 ? "" : "s", problems));
}

} // namespace smelt::driver
