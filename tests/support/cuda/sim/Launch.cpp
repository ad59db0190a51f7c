#include "tests/support/cuda/sim/Cta.h"

#include <list>

namespace smelt::emu {
namespace {

/// Passes over polling CTAs without any change before the launch counts as dead. A pass lets every lane group
/// of a warp poll once, of which there are at most 32.
constexpr int kIdlePasses = 64;

} // namespace

void runLaunch(Launch &launch) {
  static uint32_t next_cta = 0;
  static uint64_t next_grid = 1;
  launch.first_cta = next_cta;
  launch.grid_id = next_grid++;
  const auto count = static_cast<uint32_t>(launch.grid.count());
  next_cta += count + 1;

  std::list<Cta> resident; // those that poll for what later CTAs do
  uint32_t started = 0;
  for (int idle = 0; started < count || !resident.empty();) {
    bool changed = false;
    for (auto it = resident.begin(); it != resident.end();) {
      const uint64_t before = it->progress;
      const bool done = it->run() == CtaState::Done;
      changed |= done || it->progress != before;
      it = done ? resident.erase(it) : std::next(it);
    }
    while (started < count) {
      changed = true;
      resident.emplace_back(launch, started++);
      if (resident.back().run() != CtaState::Done) {
        break;
      }
      resident.pop_back();
    }
    idle = changed ? 0 : idle + 1;
    if (idle > kIdlePasses) {
      throw Fault(FaultCode::LaunchTimeout,
                  format("kernel %s: deadlock: %zu CTAs poll for a value that nobody writes",
                         launch.program->name.c_str(), resident.size()));
    }
  }
}

} // namespace smelt::emu
