// The handles of the C API and what its functions share.
#pragma once

#include "runtime/src/Session.h"
#include "smelt/runtime.h"

struct smelt_artifact {
  std::shared_ptr<const smelt::runtime::Artifact> artifact;
  std::vector<uint32_t> callsPerStep; // by kernel
};

struct smelt_weights {
  std::shared_ptr<const smelt::runtime::BoundWeights> weights;
};

struct smelt_session {
  std::unique_ptr<smelt::runtime::Session> session;
  std::string gemm; // of smelt_session_gemm()
};

namespace smelt::runtime {

// Hands a status to C: its code, and its message in *error.
smelt_status report(const Status &status, char **error);

// The exception that is being handled, as a status.
Status caught();

// Runs `body`, a function returning Status, and turns exceptions into statuses: none may cross into C.
template <typename Body> Status guard(const Body &body) {
  try {
    return body();
  } catch (...) {
    return caught();
  }
}

} // namespace smelt::runtime
