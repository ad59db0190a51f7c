// What a function that writes files reports when it could not: the status (also the exit code) and a message
// that names the file, the cause and the way out.
#pragma once

#include "smelt/status.h"

#include <optional>
#include <string>

namespace smelt::weights {

struct Failure {
  smelt_status status = SMELT_internal;
  std::string message;
};

using MaybeFailure = std::optional<Failure>;

} // namespace smelt::weights
