#include "runtime/src/WeightPacking.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Text.h"
#include "runtime/src/WeightLayout.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace smelt::runtime {

using artifact::DType;
using artifact::Manifest;
using artifact::Weight;
using artifact::WeightLayout;

namespace {

constexpr uint64_t tensorAlignment = 64;
// What a worker packs before it looks for more and says how far it is.
constexpr uint64_t pieceBytes = uint64_t(4) << 20;

uint64_t aligned(uint64_t bytes) { return (bytes + tensorAlignment - 1) / tensorAlignment * tensorAlignment; }

uint64_t tensorCount(const Weight &weight) {
  return uint64_t(std::max<uint32_t>(weight.layers(), 1)) * std::max<uint32_t>(weight.experts(), 1);
}

// A range of panels of one tensor.
struct Piece {
  PanelShape shape;
  const std::byte *source;
  std::byte *target;
  uint64_t begin, end; // panels
  uint64_t bytes() const { return (end - begin) * shape.panelBytes(); }
};

} // namespace

uint64_t packedBytes(const Manifest &manifest) {
  uint64_t bytes = 0;
  for (const Weight *weight : *manifest.weights()) {
    if (weight->layout() != WeightLayout::row_major) {
      bytes += aligned(layoutBytes(*weight)) * tensorCount(*weight);
    }
  }
  return bytes;
}

class WeightPacker {
public:
  WeightPacker(PackedWeights &packed, const PackedWeights::Progress &progress)
      : packed(packed), source(*packed.source), manifest(source.artifact()->manifest()), progress(progress) {}

  Status run(ThreadPool &pool) {
    uint64_t bytes = packedBytes(manifest);
    if (uint64_t available = availableMemory(); bytes > available) {
      return fail(SMELT_memory, fmt::format("the packed weights need {}, {} is available", formatBytes(bytes),
                                            formatBytes(available)));
    }
    Result<Memory> memory = Memory::allocate(bytes, "the packed weights");
    if (!memory.ok()) {
      return memory.takeStatus();
    }
    packed.memory = std::move(*memory);
    place();
    if (Status status = source.checkFiles(); !status.ok()) {
      return status;
    }
    pool.run(work, this);
    if (stopped) {
      return fail(SMELT_interrupted, "stopped while packing the weights");
    }
    report(total);
    if (packed.memory.size() == 0) {
      return success();
    }
    mprotect(packed.memory.data(), packed.memory.size(), PROT_READ);
    return success();
  }

private:
  // Decides where every tensor goes and lists the work in the order of the packed copy.
  void place() {
    std::byte *next = packed.memory.data();
    for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
      const Weight &weight = *manifest.weights()->Get(i);
      const void *const *tensors = source.table(i, 0);
      std::vector<const void *> &pointers =
          packed.pointers.emplace_back(tensors, tensors + tensorCount(weight));
      if (weight.layout() == WeightLayout::row_major) {
        continue;
      }
      uint64_t element = weight.dtype() == DType::bf16 ? 2 : 4;
      PanelShape shape{weight.shape()->Get(0), weight.shape()->Get(1), element};
      for (const void *&pointer : pointers) {
        addPieces(shape, static_cast<const std::byte *>(pointer), next);
        pointer = next;
        next += aligned(shape.bytes());
      }
    }
  }

  void addPieces(const PanelShape &shape, const std::byte *from, std::byte *to) {
    uint64_t step = std::max<uint64_t>(1, pieceBytes / shape.panelBytes());
    for (uint64_t begin = 0; begin < shape.panels(); begin += step) {
      pieces.push_back({shape, from, to, begin, std::min(begin + step, shape.panels())});
      total += pieces.back().bytes();
    }
  }

  static void work(void *context, int32_t worker, int32_t) {
    auto &self = *static_cast<WeightPacker *>(context);
    for (uint64_t i; !self.stopped && (i = self.next.fetch_add(1)) < self.pieces.size();) {
      const Piece &piece = self.pieces[i];
      packPanels(piece.shape, piece.source, piece.target, piece.begin, piece.end);
      self.dropSource(piece);
      uint64_t done = self.done.fetch_add(piece.bytes()) + piece.bytes();
      if (worker == 0) {
        self.report(std::min(done, self.total - 1)); // the end is told once, by run()
      }
    }
  }

  // The pages a piece has been read from, so that source and copy are not both in memory. They stay in the
  // page cache.
  void dropSource(const Piece &piece) const {
    if (!source.isMapped(piece.source)) {
      return;
    }
    static const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    uint64_t rows = std::min(piece.end * 16, piece.shape.rows) - piece.begin * 16;
    auto begin = reinterpret_cast<uintptr_t>(piece.source) + piece.begin * 16 * piece.shape.rowBytes();
    uintptr_t end = begin + rows * piece.shape.rowBytes();
    begin &= ~(page - 1);
    if (end > begin) {
      madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
    }
  }

  // By worker 0, the caller's thread.
  void report(uint64_t amount) {
    if (progress && total > 0 && !progress(amount, total)) {
      stopped = true;
    }
  }

  PackedWeights &packed;
  const BoundWeights &source;
  const Manifest &manifest;
  const PackedWeights::Progress &progress;
  std::vector<Piece> pieces;
  uint64_t total = 0;
  std::atomic<uint64_t> next{0}, done{0};
  std::atomic<bool> stopped{false};
};

Result<std::shared_ptr<const PackedWeights>> PackedWeights::of(std::shared_ptr<const BoundWeights> source,
                                                               ThreadPool &pool, const Progress &progress) {
  std::lock_guard lock(source->packing);
  if (auto shared = source->packed.lock()) {
    return shared;
  }
  auto packed = std::shared_ptr<PackedWeights>(new PackedWeights);
  packed->source = source;
  if (Status status = WeightPacker(*packed, progress).run(pool); !status.ok()) {
    return status;
  }
  source->packed = packed;
  return std::shared_ptr<const PackedWeights>(std::move(packed));
}

const void *const *PackedWeights::table(uint32_t weight, uint32_t layer) const {
  uint32_t experts = std::max<uint32_t>(source->artifact()->manifest().weights()->Get(weight)->experts(), 1);
  return pointers[weight].data() + size_t(layer) * experts;
}

uint64_t PackedWeights::hugeBytes() const { return hugePageBytes(memory.data(), memory.size()); }

} // namespace smelt::runtime
