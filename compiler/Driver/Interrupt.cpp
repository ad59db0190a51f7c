#include "compiler/Driver/Interrupt.h"

#include "compiler/Driver/UserError.h"

#include <atomic>
#include <csignal>

namespace smelt::driver {

namespace {

std::atomic<bool> arrived = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

extern "C" void onInterrupt(int) { arrived = true; }

} // namespace

void watchForInterrupts() {
  struct sigaction action = {};
  action.sa_handler = onInterrupt;
  // One-shot: the second signal finds the default action. Blocking system calls are resumed.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction previous = {};
    ::sigaction(signal, nullptr, &previous);
    // A shell or nohup that asked for a signal to be ignored is obeyed.
    if (previous.sa_handler != SIG_IGN) {
      ::sigaction(signal, &action, nullptr);
    }
  }
}

bool interrupted() { return arrived; }

void stopIfInterrupted() {
  if (interrupted()) {
    throw UserError(SMELT_interrupted, "interrupted; nothing was written");
  }
}

} // namespace smelt::driver
