// Signs of life on stderr, when that is a terminal: "[2/6] lowering (0.3s)", or a bar for long writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace smelt::driver {

struct PhaseTime {
  std::string name;
  double seconds;
};

// The phases of one command. A phase ends when the next begins.
class Progress {
public:
  explicit Progress(size_t phase_count);
  ~Progress();
  Progress(const Progress &) = delete;

  void begin(const std::string &name);
  // How far the current phase is, e.g. "kernel 3 of 14".
  void update(const std::string &detail);
  void finish();

  // Of the finished phases, in order.
  const std::vector<PhaseTime> &times() const { return finished; }

private:
  void show(const std::string &suffix, bool last);
  double elapsed() const;

  size_t phases;
  bool terminal;
  bool running = false;
  std::string name;
  std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point shown;
  std::vector<PhaseTime> finished;
};

// A table of phases with seconds and shares, for --timing.
std::string formatTimes(const std::vector<PhaseTime> &times);

} // namespace smelt::driver
