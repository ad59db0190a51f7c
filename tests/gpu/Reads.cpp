// How fast memory is read: by loads, and by bulk copies to shared memory.
#include "tests/gpu/Limits.h"

#include <fmt/format.h>

namespace smelt::gpu {
namespace {

using namespace runtime::cuda;
using nlohmann::ordered_json;

// fill: word i becomes i * 0x9e3779b1, so that the sum of the first words is known and words are as random as
// weights. read: every thread reads 16 bytes at a time, four loads in flight, a whole grid apart; the words
// of a block are added up in sums[block].
constexpr const char *loads = R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry fill(.param .u64 to, .param .u64 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [to];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [count];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %nctaid.x;
    mad.lo.u32 %r5, %r1, %r2, %r3;
    cvt.u64.u32 %rd3, %r5;
    mul.wide.u32 %rd4, %r4, %r2;
next:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done;
    cvt.u32.u64 %r6, %rd3;
    mul.lo.u32 %r6, %r6, 0x9e3779b1;
    shl.b64 %rd5, %rd3, 2;
    add.s64 %rd5, %rd1, %rd5;
    st.global.u32 [%rd5], %r6;
    add.s64 %rd3, %rd3, %rd4;
    bra next;
done:
    ret;
}

.visible .entry read(.param .u64 from, .param .u64 count, .param .u64 sums)
{
    .reg .pred %p<4>;
    .reg .b32 %r<32>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd1, [from];
    cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [count];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %rd3, %r4;
    mov.u32 %r5, %nctaid.x;
    mul.wide.u32 %rd4, %r5, %r2;
    mov.u32 %r24, 0;
    shl.b64 %rd9, %rd4, 4;
    shl.b64 %rd10, %rd4, 2;
next:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra done;
    shl.b64 %rd5, %rd3, 4;
    add.s64 %rd5, %rd1, %rd5;
    add.s64 %rd6, %rd5, %rd9;
    add.s64 %rd7, %rd6, %rd9;
    add.s64 %rd8, %rd7, %rd9;
    ld.global.nc.v4.u32 {%r6, %r7, %r8, %r9}, [%rd5];
    ld.global.nc.v4.u32 {%r10, %r11, %r12, %r13}, [%rd6];
    ld.global.nc.v4.u32 {%r14, %r15, %r16, %r17}, [%rd7];
    ld.global.nc.v4.u32 {%r18, %r19, %r20, %r21}, [%rd8];
    add.u32 %r24, %r24, %r6;
    add.u32 %r24, %r24, %r7;
    add.u32 %r24, %r24, %r8;
    add.u32 %r24, %r24, %r9;
    add.u32 %r24, %r24, %r10;
    add.u32 %r24, %r24, %r11;
    add.u32 %r24, %r24, %r12;
    add.u32 %r24, %r24, %r13;
    add.u32 %r24, %r24, %r14;
    add.u32 %r24, %r24, %r15;
    add.u32 %r24, %r24, %r16;
    add.u32 %r24, %r24, %r17;
    add.u32 %r24, %r24, %r18;
    add.u32 %r24, %r24, %r19;
    add.u32 %r24, %r24, %r20;
    add.u32 %r24, %r24, %r21;
    add.s64 %rd3, %rd3, %rd10;
    bra next;
done:
    redux.sync.add.u32 %r24, %r24, 0xffffffff;
    and.b32 %r25, %r3, 31;
    setp.ne.u32 %p2, %r25, 0;
    @%p2 bra end;
    ld.param.u64 %rd11, [sums];
    cvta.to.global.u64 %rd11, %rd11;
    mul.wide.u32 %rd12, %r1, 4;
    add.s64 %rd11, %rd11, %rd12;
    red.global.add.u32 [%rd11], %r24;
end:
    ret;
}
)";

// bulk: a block brings every %nctaid-th piece of memory into a ring of slots in shared memory, thread 0
// asking for as many as there are slots before the first is there, and adds up its words as soon as a piece
// has landed; the slot then takes the next piece. bytes: of a piece, a multiple of 4096.
constexpr const char *bulkCopies = R"(
.version 8.0
.target sm_90
.address_size 64

.extern .shared .align 128 .b8 ring[];

.visible .entry bulk(.param .u64 from, .param .u32 pieces, .param .u32 bytes, .param .u32 slots,
                     .param .u64 sums)
.maxntid 256, 1, 1
{
    .shared .align 8 .b64 landed[16];
    .reg .pred %p<2>;
    .reg .pred %follows;
    .reg .b32 %thread, %block, %blocks, %pieces, %bytes, %slots, %next, %piece, %slot, %parity;
    .reg .b32 %ring, %landed, %barrier, %at, %end, %sum, %offset, %r<5>;
    .reg .b64 %from, %piece_at, %sums, %mine;
    ld.param.u64 %from, [from];
    cvta.to.global.u64 %from, %from;
    ld.param.u32 %pieces, [pieces];
    ld.param.u32 %bytes, [bytes];
    ld.param.u32 %slots, [slots];
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %ring, ring;
    mov.u32 %landed, landed;
    mov.u32 %sum, 0;
    mov.u32 %next, %block;
    shl.b32 %offset, %thread, 4;
    setp.ne.u32 %follows, %thread, 0;
    @%follows bra ready;
    mov.u32 %slot, 0;
init:
    shl.b32 %barrier, %slot, 3;
    add.u32 %barrier, %landed, %barrier;
    mbarrier.init.shared::cta.b64 [%barrier], 1;
    add.u32 %slot, %slot, 1;
    setp.lt.u32 %p1, %slot, %slots;
    @%p1 bra init;
    fence.mbarrier_init.release.cluster;
    mov.u32 %slot, 0;
first:
    setp.ge.u32 %p1, %next, %pieces;
    @%p1 bra ready;
    setp.ge.u32 %p1, %slot, %slots;
    @%p1 bra ready;
    shl.b32 %barrier, %slot, 3;
    add.u32 %barrier, %landed, %barrier;
    mad.lo.u32 %at, %slot, %bytes, %ring;
    mad.wide.u32 %piece_at, %next, %bytes, %from;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], %bytes;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%piece_at], %bytes, [%barrier];
    add.u32 %next, %next, %blocks;
    add.u32 %slot, %slot, 1;
    bra first;
ready:
    bar.sync 0;
    mov.u32 %piece, %block;
    mov.u32 %slot, 0;
    mov.u32 %parity, 0;
again:
    setp.ge.u32 %p1, %piece, %pieces;
    @%p1 bra done;
    shl.b32 %barrier, %slot, 3;
    add.u32 %barrier, %landed, %barrier;
    mad.lo.u32 %at, %slot, %bytes, %ring;
    add.u32 %end, %at, %bytes;
    add.u32 %at, %at, %offset;
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%barrier], %parity;
    @!%p1 bra wait;
words:
    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%at];
    add.u32 %sum, %sum, %r1;
    add.u32 %sum, %sum, %r2;
    add.u32 %sum, %sum, %r3;
    add.u32 %sum, %sum, %r4;
    add.u32 %at, %at, 4096;
    setp.lt.u32 %p1, %at, %end;
    @%p1 bra words;
    bar.sync 0;
    @%follows bra onward;
    setp.ge.u32 %p1, %next, %pieces;
    @%p1 bra onward;
    mad.lo.u32 %at, %slot, %bytes, %ring;
    mad.wide.u32 %piece_at, %next, %bytes, %from;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], %bytes;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%piece_at], %bytes, [%barrier];
    add.u32 %next, %next, %blocks;
onward:
    add.u32 %piece, %piece, %blocks;
    add.u32 %slot, %slot, 1;
    setp.lt.u32 %p1, %slot, %slots;
    @%p1 bra again;
    mov.u32 %slot, 0;
    xor.b32 %parity, %parity, 1;
    bra again;
done:
    redux.sync.add.u32 %sum, %sum, 0xffffffff;
    and.b32 %r1, %thread, 31;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra out;
    ld.param.u64 %sums, [sums];
    cvta.to.global.u64 %sums, %sums;
    mul.wide.u32 %mine, %block, 4;
    add.s64 %sums, %sums, %mine;
    red.global.add.u32 [%sums], %sum;
out:
    ret;
}
)";
constexpr unsigned bulkThreads = 256, mostSlots = 16;
// What a block takes beside the ring: the barriers and the ring's alignment, and what the GPU keeps for
// itself.
constexpr uint64_t besideRing = 256, reservedShared = 1024;

struct Rate {
  double bytesPerSecond = 0;
  std::string how;
};

class Reader {
public:
  Reader(const Bench &bench, uint64_t bytes)
      : bench(bench), memory(bench.allocate(bytes)),
        sums(bench.allocate(uint64_t(4) * 4 * bench.multiprocessors())), module(bench.load(loads)) {
    DevicePtr to = memory.address();
    uint64_t words = bytes / 4;
    void *parameters[] = {&to, &words};
    bench.launch(bench.function(module, "fill"), {4 * bench.multiprocessors(), 512}, parameters);
  }

  void byLoads(unsigned perProcessor, ordered_json &results);
  void byBulkCopies(const OwnedModule &bulk, unsigned perProcessor, unsigned pieceBytes,
                    ordered_json &results);
  const Rate &best() const { return highest; }

private:
  // Bytes a second of a kernel that adds up the first `bytes`, run after run.
  double rate(Function kernel, const LaunchShape &shape, void **parameters, uint64_t bytes);
  // No more blocks than there is work for.
  unsigned blocksFor(unsigned perProcessor, uint64_t most) const {
    return unsigned(std::min<uint64_t>(std::max<uint64_t>(1, most), perProcessor * bench.multiprocessors()));
  }
  void note(double bytesPerSecond, const std::string &how, uint64_t bytes) {
    fmt::print("  reading {} MiB by {}: {:.1f} GB/s\n", bytes >> 20, how, bytesPerSecond * 1e-9);
    if (bytesPerSecond > highest.bytesPerSecond) {
      highest = {bytesPerSecond, how};
    }
  }

  const Bench &bench;
  DeviceMemory memory, sums;
  OwnedModule module;
  Rate highest;
};

double Reader::rate(Function kernel, const LaunchShape &shape, void **parameters, uint64_t bytes) {
  bench.set(sums, 0);
  uint32_t runs = 0;
  double seconds = bench.time([&] {
    ++runs;
    bench.launch(kernel, shape, parameters);
  });
  uint32_t sum = 0;
  for (uint32_t part : bench.download<uint32_t>(sums)) {
    sum += part;
  }
  uint64_t words = bytes / 4;
  uint32_t expected = uint32_t(words * (words - 1) / 2) * 0x9e3779b1U * runs;
  if (sum != expected) {
    throw std::runtime_error(
        fmt::format("reading {} bytes {} times by {} blocks gives the sum {:#x} and not {:#x}", bytes, runs,
                    shape.blocks, sum, expected));
  }
  return double(bytes) / seconds;
}

void Reader::byLoads(unsigned perProcessor, ordered_json &results) {
  constexpr unsigned threads = 512;
  unsigned blocks = blocksFor(perProcessor, memory.size() / (uint64_t(16) * threads * 4));
  // Only whole rounds of four loads, so that no thread reads past the end.
  uint64_t round = uint64_t(blocks) * threads * 4;
  uint64_t count = memory.size() / 16 / round * round;
  if (count == 0) {
    return;
  }
  DevicePtr from = memory.address(), to = sums.address();
  void *parameters[] = {&from, &count, &to};
  double speed = rate(bench.function(module, "read"), {blocks, threads}, parameters, count * 16);
  std::string how = fmt::format("loads, {} a multiprocessor", counted(perProcessor, "block"));
  note(speed, how, count * 16);
  results["reads"].push_back({{"what", "reading by " + how},
                              {"bytes", count * 16},
                              {"blocks_per_multiprocessor", perProcessor},
                              {"bytes_per_second", speed}});
}

void Reader::byBulkCopies(const OwnedModule &bulk, unsigned perProcessor, unsigned pieceBytes,
                          ordered_json &results) {
  uint64_t ring = (bench.device->sharedBytes + reservedShared) / perProcessor - reservedShared - besideRing;
  auto slots = unsigned(std::min<uint64_t>(mostSlots, ring / pieceBytes));
  auto pieces = unsigned(memory.size() / pieceBytes);
  if (slots == 0 || pieces == 0) {
    return skip(results,
                fmt::format("reading by bulk copies of {} KiB, {} a multiprocessor", pieceBytes >> 10,
                            counted(perProcessor, "block")),
                slots ? "there are fewer bytes to read" : "its shared memory is smaller");
  }
  Function kernel = bench.function(bulk, "bulk");
  LaunchShape shape{blocksFor(perProcessor, pieces), bulkThreads, slots * pieceBytes};
  bench.expect(bench.device->api.functionSetAttribute(kernel, function_max_dynamic_shared_bytes,
                                                      int(shape.sharedBytes)),
               "give a kernel so much shared memory");
  DevicePtr from = memory.address(), to = sums.address();
  void *parameters[] = {&from, &pieces, &pieceBytes, &slots, &to};
  uint64_t bytes = uint64_t(pieces) * pieceBytes;
  double speed = rate(kernel, shape, parameters, bytes);
  std::string how = fmt::format("bulk copies of {} KiB, {} in flight a block, {} a multiprocessor",
                                pieceBytes >> 10, slots, counted(perProcessor, "block"));
  note(speed, how, bytes);
  results["bulk_reads"].push_back({{"what", "reading by " + how},
                                   {"bytes", bytes},
                                   {"copy_bytes", pieceBytes},
                                   {"copies_in_flight", slots},
                                   {"blocks_per_multiprocessor", perProcessor},
                                   {"bytes_per_second", speed}});
}

} // namespace

double measureReads(const Bench &bench, uint64_t bytes, ordered_json &results) {
  Reader reader(bench, bytes);
  for (unsigned perProcessor : {1U, 2U, 4U}) {
    reader.byLoads(perProcessor, results);
  }
  if (bench.device->computeCapability >= 90) {
    OwnedModule bulk = bench.load(bulkCopies);
    for (unsigned pieceKiB : {16U, 32U, 64U}) {
      for (unsigned perProcessor : {1U, 2U}) {
        reader.byBulkCopies(bulk, perProcessor, pieceKiB << 10, results);
      }
    }
  } else {
    skip(results, "reading by bulk copies", "they take compute capability 9.0");
  }
  results["read_rate"] = {{"bytes_per_second", reader.best().bytesPerSecond}, {"how", reader.best().how}};
  return reader.best().bytesPerSecond;
}

} // namespace smelt::gpu
