// What it costs that all blocks of a grid wait for each other, as kernels of one persistent launch would do
// instead of launches of a graph.
#include "tests/gpu/LaunchModes.h"
#include "tests/gpu/Limits.h"

#include <fmt/format.h>

namespace smelt::gpu {
namespace {

using namespace runtime::cuda;
using nlohmann::ordered_json;

// In every round a block adds one to a counter and waits until all have. With `said` it writes the number of
// the round for the others before, and counts after how many blocks' numbers are right; two rounds use two
// places, so that nobody writes what others still read. A poll that has no end is given up.
constexpr const char *ptx = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry meet(.param .u64 counter, .param .u64 said, .param .u64 right, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .pred %follows, %silent;
    .reg .b32 %thread, %threads, %block, %blocks, %round, %rounds, %goal, %arrived, %polls;
    .reg .b32 %half, %other, %number, %count;
    .reg .b64 %counter, %said, %right, %place, %numbers;
    ld.param.u64 %counter, [counter];
    cvta.to.global.u64 %counter, %counter;
    ld.param.u64 %said, [said];
    setp.eq.u64 %silent, %said, 0;
    cvta.to.global.u64 %said, %said;
    ld.param.u32 %rounds, [rounds];
    mov.u32 %thread, %tid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    setp.ne.u32 %follows, %thread, 0;
    mov.u32 %round, 0;
    mov.u32 %goal, 0;
    mov.u32 %count, 0;
round:
    setp.ge.u32 %p1, %round, %rounds;
    @%p1 bra done;
    add.u32 %goal, %goal, %blocks;
    and.b32 %half, %round, 1;
    mul.lo.u32 %half, %half, %blocks;
    mul.wide.u32 %numbers, %half, 4;
    add.s64 %numbers, %said, %numbers;
    add.u32 %round, %round, 1;
    bar.sync 0;
    @%follows bra met;
    @%silent bra arrive;
    mul.wide.u32 %place, %block, 4;
    add.s64 %place, %numbers, %place;
    st.global.u32 [%place], %round;
arrive:
    red.release.gpu.global.add.u32 [%counter], 1;
    mov.u32 %polls, 0;
poll:
    add.u32 %polls, %polls, 1;
    setp.gt.u32 %p1, %polls, 67108864;
    @%p1 bra lost;
    ld.acquire.gpu.global.u32 %arrived, [%counter];
    setp.lt.u32 %p1, %arrived, %goal;
    @%p1 bra poll;
met:
    bar.sync 0;
    @%silent bra round;
    mov.u32 %other, %thread;
look:
    setp.ge.u32 %p1, %other, %blocks;
    @%p1 bra round;
    mul.wide.u32 %place, %other, 4;
    add.s64 %place, %numbers, %place;
    ld.global.u32 %number, [%place];
    setp.eq.u32 %p1, %number, %round;
    @%p1 add.u32 %count, %count, 1;
    add.u32 %other, %other, %threads;
    bra look;
done:
    ld.param.u64 %right, [right];
    cvta.to.global.u64 %right, %right;
    mul.wide.u32 %place, %block, 4;
    add.s64 %right, %right, %place;
    red.global.add.u32 [%right], %count;
    ret;
lost:
    trap;
}
)";

class Barrier {
public:
  Barrier(const Bench &bench, const LaunchModes &modes, uint32_t rounds)
      : bench(bench), modes(modes), rounds(rounds), blocks(bench.multiprocessors()),
        counter(bench.allocate(4)), said(bench.allocate(uint64_t(8) * blocks)),
        right(bench.allocate(uint64_t(4) * blocks)), module(bench.load(ptx)),
        kernel(bench.function(module, "meet")) {}

  // Seconds a round.
  double seconds(bool exchange);

private:
  const Bench &bench;
  const LaunchModes &modes;
  uint32_t rounds;
  unsigned blocks;
  DeviceMemory counter, said, right;
  OwnedModule module;
  Function kernel;
};

double Barrier::seconds(bool exchange) {
  DevicePtr to = counter.address(), places = exchange ? said.address() : 0, counts = right.address();
  void *parameters[] = {&to, &places, &counts, &rounds};
  bench.set(right, 0);
  uint32_t runs = 0;
  double seconds = bench.time([&] {
    ++runs;
    bench.set(counter, 0);
    modes.cooperative(kernel, {blocks, 256}, parameters);
  });
  uint32_t arrivals = bench.download<uint32_t>(counter)[0];
  if (arrivals != rounds * blocks) {
    throw std::runtime_error(fmt::format("{} blocks that meet {} times arrive {} times and not {}", blocks,
                                         rounds, arrivals, rounds * blocks));
  }
  uint32_t expected = exchange ? runs * rounds * blocks : 0;
  for (uint32_t count : bench.download<uint32_t>(right)) {
    if (count != expected) {
      throw std::runtime_error(
          fmt::format("one of {} blocks that meet {} times saw {} right numbers of the others "
                      "and not {}",
                      blocks, rounds * runs, count, expected));
    }
  }
  return seconds / rounds;
}

} // namespace

void measureGridBarrier(const Bench &bench, uint32_t rounds, ordered_json &results) {
  LaunchModes modes(bench);
  std::string whyNot = modes.whyNotCooperative();
  if (!whyNot.empty()) {
    return skip(results, "a barrier of a whole grid", whyNot);
  }
  Barrier barrier(bench, modes, rounds);
  for (bool exchange : {false, true}) {
    double seconds = barrier.seconds(exchange);
    const char *work = exchange ? "a number of every block to all" : "nothing";
    std::string what = fmt::format("a barrier of {}, {}", counted(bench.multiprocessors(), "block"), work);
    fmt::print("  {}: {:.2f} us\n", what, seconds * 1e6);
    results["grid_barriers"].push_back({{"what", what},
                                        {"blocks", bench.multiprocessors()},
                                        {"rounds", rounds},
                                        {"work", work},
                                        {"seconds", seconds}});
  }
}

} // namespace smelt::gpu
