#include "compiler/Driver/Progress.h"

#include <cstdio>
#include <fmt/format.h>

#include <unistd.h>

namespace smelt::driver {

namespace {

// Often enough to look alive, seldom enough to cost nothing.
constexpr std::chrono::milliseconds update_interval(100);

} // namespace

Progress::Progress(size_t phase_count) : phases(phase_count), terminal(::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  // Left by an exception: end the line, so that the message starts on one of its own.
  if (running && terminal) {
    fmt::print(stderr, "\n");
  }
}

void Progress::begin(const std::string &phase) {
  finish();
  name = phase;
  running = true;
  start = std::chrono::steady_clock::now();
  shown = {};
  show("", false);
}

void Progress::update(const std::string &detail) {
  auto now = std::chrono::steady_clock::now();
  if (now - shown >= update_interval) {
    shown = now;
    show(": " + detail, false);
  }
}

void Progress::finish() {
  if (!running) {
    return;
  }
  finished.push_back({name, elapsed()});
  show(fmt::format(" ({:.1f}s)", elapsed()), true);
  running = false;
}

void Progress::show(const std::string &suffix, bool last) {
  if (!terminal) {
    return;
  }
  size_t number = finished.size() + (last ? 0 : 1);
  // \x1b[K clears what a longer text left behind.
  fmt::print(stderr, "\r[{}/{}] {}{}\x1b[K{}", number, phases, name, suffix, last ? "\n" : "");
  std::fflush(stderr);
}

double Progress::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string formatTimes(const std::vector<PhaseTime> &times) {
  double total = 0;
  size_t width = 5;
  for (const PhaseTime &time : times) {
    total += time.seconds;
    width = std::max(width, time.name.size());
  }
  std::string text;
  for (const PhaseTime &time : times) {
    text += fmt::format("{:<{}}  {:>9.3f} s  {:>5.1f} %\n", time.name, width, time.seconds,
                        total > 0 ? 100 * time.seconds / total : 0.0);
  }
  text += fmt::format("{:<{}}  {:>9.3f} s\n", "total", width, total);
  return text;
}

} // namespace smelt::driver
