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

uint64_t aligned(uint64_t bytes) { return (bytes + tensorAlignment - 1) / tensorAlignment * tensorAlignment; }

uint64_t tensorCount(const Weight &weight) {
  return uint64_t(std::max<uint32_t>(weight.layers(), 1)) * std::max<uint32_t>(weight.experts(), 1);
}

// One tensor to pack.
struct Tensor {
  PanelShape shape;
  QuantSource quant;       // of i8
  uint64_t sourceRowBytes; // in the file
  const std::byte *source; // null for hash weights
  SplatTensor splat;
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

template <typename Use> void PackedWeights::place(Use use) {
  const Manifest &manifest = source->artifact()->manifest();
  const std::byte *next = data().data();
  for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
    const Weight &weight = *manifest.weights()->Get(i);
    const void *const *tensors = source->table(i, 0);
    std::vector<const void *> &places = pointers.emplace_back(tensors, tensors + tensorCount(weight));
    if (weight.layout() == WeightLayout::row_major) {
      continue;
    }
    for (uint64_t t = 0; t < places.size(); ++t) {
      use(i, t, static_cast<const std::byte *>(places[t]), next);
      places[t] = next;
      next += aligned(layoutBytes(weight));
    }
  }
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
    packed.place([&](uint32_t index, uint64_t tensor, const std::byte *from, const std::byte *to) {
      const Weight &weight = *manifest.weights()->Get(index);
      PanelShape shape = PanelShape::of(weight);
      QuantSource quant = shape.quantized() ? source.quantSource(index, tensor) : QuantSource{weight.dtype()};
      addPieces({shape, quant, shape.columns * elementBytes(quant.stored), from,
                 from ? SplatTensor() : splatOf(weight, tensor), const_cast<std::byte *>(to), index, tensor});
    });
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
  SplatTensor splatOf(const Weight &weight, uint64_t tensor) const {
    return splatTensor(*source.splatSeed(), nameOf(weight, tensor),
                       {weight.shape()->data(), weight.shape()->size()});
  }

  static std::string nameOf(const Weight &weight, uint64_t tensor) {
    uint32_t experts = std::max<uint32_t>(weight.experts(), 1);
    return expandName(weight.name()->string_view(), weight.first_layer() + tensor / experts,
                      tensor % experts);
  }

  void addPieces(const Tensor &tensor) {
    uint64_t panels = tensor.shape.panels();
    uint64_t step = std::max<uint64_t>(1, packingPieceBytes / tensor.shape.panelBytes());
    for (uint64_t begin = 0; begin < panels; begin += step) {
      pieces.push_back({tensor, begin, std::min(begin + step, panels)});
      total += pieces.back().bytes();
    }
  }

  static void work(void *context, int32_t worker, int32_t) {
    auto &self = *static_cast<WeightPacker *>(context);
    RowQuantizer quantizer;
    std::vector<std::byte> generated; // hash weights of a piece
    for (uint64_t i; !self.stopped && (i = self.next.fetch_add(1)) < self.pieces.size();) {
      const Piece &piece = self.pieces[i];
      if (!(piece.tensor.source ? pack(piece, quantizer) : packGenerated(piece, generated, quantizer))) {
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

  // As a matrix of its own, so that the rest of the tensor never exists but packed.
  static bool packGenerated(const Piece &piece, std::vector<std::byte> &generated, RowQuantizer &quantizer) {
    Piece part = piece;
    Tensor &tensor = part.tensor;
    tensor.shape.rows = piece.rows();
    generated.resize(tensor.shape.rows * tensor.sourceRowBytes);
    uint64_t columns = tensor.shape.columns;
    fillSplat(tensor.splat, elementBytes(tensor.quant.stored), piece.firstRow() * columns,
              tensor.shape.rows * columns, generated.data());
    tensor.source = generated.data();
    tensor.target += piece.begin * tensor.shape.panelBytes();
    part.begin = 0;
    part.end = tensor.shape.panels();
    return pack(part, quantizer);
  }

  Status brokenTensors() const {
    ProblemList problems;
    for (const auto &[index, piece] : broken) {
      const Tensor &tensor = piece->tensor;
      const Weight &weight = *manifest.weights()->Get(tensor.weight);
      problems.add(fmt::format("'{}', rows {} to {}: {}", printable(nameOf(weight, tensor.index)),
                               piece->firstRow(), piece->firstRow() + piece->rows() - 1,
                               tensor.quant.stored == DType::i8
                                   ? "a scale is negative, NaN or not below 2^88"
                                   : "a value is NaN or not below 127 * 2^88"));
    }
    return fail(SMELT_weights,
                fmt::format("the weights cannot be used in 8 bits ({} problem{}):{}", problems.size(),
                            problems.size() == 1 ? "" : "s", problems.text()));
  }

  // The pages a piece has been read from, so that source and copy are not both in memory.
  void dropSource(const Piece &piece) const {
    const Tensor &tensor = piece.tensor;
    auto drop = [&](const void *rows, uint64_t rowBytes) {
      source.dropPages(static_cast<const std::byte *>(rows) + piece.firstRow() * rowBytes,
                       piece.rows() * rowBytes);
    };
    if (tensor.source) {
      drop(tensor.source, tensor.sourceRowBytes);
    }
    if (tensor.quant.scales) {
      drop(tensor.quant.scales, 2 * quantBlocks(tensor.shape.columns));
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

// Packed weights from a cache, and the cache from packed weights.
class CachedPacking {
public:
  CachedPacking(PackedWeights &packed, ThreadPool &pool, const PackedWeights::Options &options)
      : packed(packed), pool(pool), options(options) {}

  Status run() {
    uint64_t bytes = packedBytes(packed.source->artifact()->manifest());
    if (bytes == 0) {
      notice("no weights cache is made: the code of this artifact reads all weights from their files");
      return pack();
    }
    Result<WeightCacheKey> key = weightCacheKey(*packed.source);
    if (!key.ok()) {
      return key.takeStatus();
    }
    std::string path = options.cache->empty() ? defaultCachePath(*packed.source, *key) : *options.cache;
    if (Status status = use(path, *key, bytes); status.ok() || status.code == SMELT_interrupted) {
      return status;
    }
    if (Status status = pack(); !status.ok()) {
      return status;
    }
    Status status = writeWeightCache(path, *key, packed.data(), pool, options.progress);
    if (status.code == SMELT_interrupted) {
      return status;
    }
    notice(status.ok() ? fmt::format("{}: written, {} of packed weights", path, formatBytes(bytes))
                       : status.message + "; going on without a weights cache");
    return success();
  }

private:
  // Maps the cache; an error when there is none, or none that fits, which has been told then.
  Status use(const std::string &path, const WeightCacheKey &key, uint64_t bytes) {
    Result<WeightCache> cache = WeightCache::open(path);
    Status status = cache.ok() ? cache->checkFits(key, bytes) : cache.takeStatus();
    if (status.ok() && options.checkCache) {
      status = cache->checkData(options.progress);
    }
    if (status.ok()) {
      packed.cache.emplace(std::move(*cache));
      const Manifest &manifest = packed.source->artifact()->manifest();
      packed.place([&](uint32_t index, uint64_t, const std::byte *, const std::byte *at) {
        const Weight &weight = *manifest.weights()->Get(index);
        if (weight.experts() == 0) { // read in every step, unlike an expert
          adviseDense(at, layoutBytes(weight));
        }
      });
    } else if (status.code != SMELT_interrupted && access(path.c_str(), F_OK) == 0) {
      notice(status.message + "; packing again");
    }
    return status;
  }

  static void adviseDense(const std::byte *at, uint64_t bytes) {
    static const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
    uintptr_t begin = reinterpret_cast<uintptr_t>(at) & ~(page - 1);
    madvise(reinterpret_cast<void *>(begin), reinterpret_cast<uintptr_t>(at) + bytes - begin, MADV_WILLNEED);
  }

  Status pack() { return WeightPacker(packed, options.progress).run(pool); }

  void notice(const std::string &text) const {
    if (options.notice) {
      options.notice(text);
    }
  }

  PackedWeights &packed;
  ThreadPool &pool;
  const PackedWeights::Options &options;
};

Result<std::shared_ptr<const PackedWeights>> PackedWeights::of(std::shared_ptr<const BoundWeights> source,
                                                               ThreadPool &pool, const Options &options) {
  if (options.cache && source->splatSeed()) {
    return fail(SMELT_input, "hash weights have no files, so there is nothing to keep a weights cache of");
  }
  std::lock_guard lock(source->packing);
  if (auto shared = source->packed.lock()) {
    return shared;
  }
  auto packed = std::shared_ptr<PackedWeights>(new PackedWeights);
  packed->source = source;
  Status status = options.cache ? CachedPacking(*packed, pool, options).run()
                                : WeightPacker(*packed, options.progress).run(pool);
  if (!status.ok()) {
    return status;
  }
  source->packed = packed;
  return std::shared_ptr<const PackedWeights>(std::move(packed));
}

const void *const *PackedWeights::table(uint32_t weight, uint32_t layer) const {
  uint32_t experts = std::max<uint32_t>(source->artifact()->manifest().weights()->Get(weight)->experts(), 1);
  return pointers[weight].data() + size_t(layer) * experts;
}

uint64_t PackedWeights::hugeBytes() const { return hugePageBytes(data().data(), data().size()); }

} // namespace smelt::runtime
