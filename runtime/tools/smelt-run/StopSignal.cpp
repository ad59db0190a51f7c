#include "runtime/tools/smelt-run/StopSignal.h"

#include <atomic>
#include <csignal>

namespace smelt::runtime {
namespace {

std::atomic<bool> stopRequested{false};
std::atomic<smelt_session *> watched{nullptr};
static_assert(std::atomic<smelt_session *>::is_always_lock_free, "used in a signal handler");

struct sigaction oldInterrupt, oldTerminate, oldPipe, oldFileSize;

void handle(int) {
  stopRequested.store(true);
  if (smelt_session *session = watched.load()) {
    smelt_session_interrupt(session);
  }
}

} // namespace

StopSignal::StopSignal() {
  stopRequested = false;
  struct sigaction action = {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = int(SA_RESETHAND);
  sigaction(SIGINT, &action, &oldInterrupt);
  sigaction(SIGTERM, &action, &oldTerminate);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &oldPipe);
  sigaction(SIGXFSZ, &ignore, &oldFileSize);
}

StopSignal::~StopSignal() {
  watched = nullptr;
  sigaction(SIGINT, &oldInterrupt, nullptr);
  sigaction(SIGTERM, &oldTerminate, nullptr);
  sigaction(SIGPIPE, &oldPipe, nullptr);
  sigaction(SIGXFSZ, &oldFileSize, nullptr);
}

bool StopSignal::requested() { return stopRequested.load(); }

void StopSignal::watch(smelt_session *session) {
  watched = session;
  if (session && requested()) {
    smelt_session_interrupt(session);
  }
}

} // namespace smelt::runtime
