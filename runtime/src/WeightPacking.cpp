#include "runtime/src/WeightPacking.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/Quantize.h"
#include "runtime/src/Text.h"
#include "runtime/src/WeightLayout.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
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

// One tensor to pack.
struct Tensor {
  PanelShape shape;
  QuantSource quant;       // of i8
  uint64_t sourceRowBytes; // in the file
  const std::byte *source;
  std::byte *target;
  uint32_t weight;
  uint64_t index; // [layers][experts]
};

// A range of panels of one tensor.
struct Piece {
  Tensor tensor;
  uint64_t begin, end; // panels
  uint64_t bytes() const { return (end - begin) * tensor.shape.panelBytes(); }
  uint64_t firstRow() const { return begin * 16; }
  uint64_t rows() const { return std::min(end * 16, tensor.shape.rows) - firstRow(); }
};

// Quantises weights of f32 or bf16, 16 rows at a time, and packs them. False when a row cannot be quantised.
class RowQuantizer {
public:
  bool pack(const Piece &piece) {
    const Tensor &tensor = piece.tensor;
    uint64_t columns = tensor.shape.columns, blocks = quantBlocks(columns);
    values.resize(columns);
    halves.resize(columns);
    codes.resize(16 * columns);
    scales.resize(16 * blocks);
    for (uint64_t panel = piece.begin; panel < piece.end; ++panel) {
      uint64_t first = panel * 16, have = std::min<uint64_t>(16, tensor.shape.rows - first);
      for (uint64_t row = 0; row < have; ++row) {
        widen(tensor, first + row);
        if (!quantizeRow(values.data(), columns, &codes[row * columns], &scales[row * blocks])) {
          return false;
        }
      }
      auto *packedScales = reinterpret_cast<const std::byte *>(scales.data());
      if (!decodableScales(packedScales, have * blocks)) {
        return false;
      }
      packQuantPanels({have, columns, 1}, reinterpret_cast<const std::byte *>(codes.data()), packedScales,
                      tensor.target + panel * tensor.shape.panelBytes(), 0, 1);
    }
    return true;
  }

private:
  void widen(const Tensor &tensor, uint64_t row) {
    const std::byte *from = tensor.source + row * tensor.sourceRowBytes;
    if (tensor.quant.stored == DType::f32) {
      std::memcpy(values.data(), from, tensor.sourceRowBytes);
    } else {
      std::memcpy(halves.data(), from, tensor.sourceRowBytes);
      widenBf16(halves.data(), values.data(), values.size());
    }
  }

  std::vector<float> values;
  std::vector<uint16_t> halves, scales;
  std::vector<int8_t> codes;
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
    if (!broken.empty()) {
      return brokenTensors();
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
      PanelShape shape = PanelShape::of(weight);
      for (uint64_t t = 0; t < pointers.size(); ++t) {
        QuantSource quant = shape.quantized() ? source.quantSource(i, t) : QuantSource{weight.dtype()};
        addPieces({shape, quant, shape.columns * elementBytes(quant.stored),
                   static_cast<const std::byte *>(pointers[t]), next, i, t});
        pointers[t] = next;
        next += aligned(shape.bytes());
      }
    }
  }

  void addPieces(const Tensor &tensor) {
    uint64_t panels = tensor.shape.panels();
    uint64_t step = std::max<uint64_t>(1, pieceBytes / tensor.shape.panelBytes());
    for (uint64_t begin = 0; begin < panels; begin += step) {
      pieces.push_back({tensor, begin, std::min(begin + step, panels)});
      total += pieces.back().bytes();
    }
  }

  static void work(void *context, int32_t worker, int32_t) {
    auto &self = *static_cast<WeightPacker *>(context);
    RowQuantizer quantizer;
    for (uint64_t i; !self.stopped && (i = self.next.fetch_add(1)) < self.pieces.size();) {
      const Piece &piece = self.pieces[i];
      if (!pack(piece, quantizer)) {
        std::lock_guard lock(self.breaking);
        self.broken[i] = &piece;
      }
      self.dropSource(piece);
      uint64_t done = self.done.fetch_add(piece.bytes()) + piece.bytes();
      if (worker == 0) {
        self.report(std::min(done, self.total - 1)); // the end is told once, by run()
      }
    }
  }

  // False when its values or scales are none that i8 can have.
  static bool pack(const Piece &piece, RowQuantizer &quantizer) {
    const Tensor &tensor = piece.tensor;
    if (!tensor.shape.quantized()) {
      packPanels(tensor.shape, tensor.source, tensor.target, piece.begin, piece.end);
      return true;
    }
    if (tensor.quant.stored != DType::i8) {
      return quantizer.pack(piece);
    }
    auto *scales = static_cast<const std::byte *>(tensor.quant.scales);
    uint64_t blocks = quantBlocks(tensor.shape.columns);
    if (!decodableScales(scales + piece.firstRow() * blocks * 2, piece.rows() * blocks)) {
      return false;
    }
    packQuantPanels(tensor.shape, tensor.source, scales, tensor.target, piece.begin, piece.end);
    return true;
  }

  Status brokenTensors() const {
    ProblemList problems;
    for (const auto &[index, piece] : broken) {
      const Tensor &tensor = piece->tensor;
      const Weight &weight = *manifest.weights()->Get(tensor.weight);
      uint32_t experts = std::max<uint32_t>(weight.experts(), 1);
      std::string name = expandName(weight.name()->string_view(),
                                    weight.first_layer() + tensor.index / experts, tensor.index % experts);
      problems.add(fmt::format("'{}', rows {} to {}: {}", printable(name), piece->firstRow(),
                               piece->firstRow() + piece->rows() - 1,
                               tensor.quant.stored == DType::i8
                                   ? "a scale is negative, NaN or not below 2^104"
                                   : "a value is NaN or not below 127 * 2^104"));
    }
    return fail(SMELT_weights,
                fmt::format("the weights cannot be used in 8 bits ({} problem{}):{}", problems.size(),
                            problems.size() == 1 ? "" : "s", problems.text()));
  }

  // The pages a piece has been read from, so that source and copy are not both in memory. They stay in the
  // page cache.
  void dropSource(const Piece &piece) const {
    const Tensor &tensor = piece.tensor;
    dropRows(tensor.source, tensor.sourceRowBytes, piece);
    if (tensor.quant.scales) {
      dropRows(tensor.quant.scales, 2 * quantBlocks(tensor.shape.columns), piece);
    }
  }

  void dropRows(const void *rows, uint64_t rowBytes, const Piece &piece) const {
    if (!source.isMapped(rows)) {
      return;
    }
    static const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    auto begin = reinterpret_cast<uintptr_t>(rows) + piece.firstRow() * rowBytes;
    uintptr_t end = begin + piece.rows() * rowBytes;
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
  std::mutex breaking;
  std::map<uint64_t, const Piece *> broken; // by index
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
