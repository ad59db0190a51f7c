// SIGINT and SIGTERM as a request to stop cleanly.
#pragma once

#include "smelt/runtime.h"

namespace smelt::runtime {

// While one lives, the first SIGINT or SIGTERM only asks to stop; a second SIGINT kills as usual. SIGPIPE and
// SIGXFSZ are ignored, so that a closed output and a file size limit become errors. One at a time.
class StopSignal {
public:
  StopSignal();
  ~StopSignal();

  static bool requested();
  // The session to interrupt when the signal comes; null to stop. Interrupts at once if it already came.
  static void watch(smelt_session *session);
};

} // namespace smelt::runtime
