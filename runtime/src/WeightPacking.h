// The weights of an artifact as CPU kernels read them: matrices packed into panels, quantised first where the
// model is i8 and the file is not; everything else where its file has it.
#pragma once

#include "runtime/src/SystemMemory.h"
#include "runtime/src/ThreadPool.h"
#include "runtime/src/WeightBinding.h"
#include "runtime/src/WeightCache.h"

#include <functional>

namespace smelt::runtime {

// Bytes of the packed copy: every tensor of a layout other than row_major, each at a multiple of 64.
uint64_t packedBytes(const artifact::Manifest &manifest);

// What a worker packs before it looks for more and says how far it is.
constexpr uint64_t packingPieceBytes = uint64_t(4) << 20;

class PackedWeights {
public:
  // Returns false to stop.
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;

  struct Options {
    Progress progress = {};
    // A file to map the packed form from, or to write it to when there is none that fits; "": beside the
    // weights. nullopt: none.
    std::optional<std::string> cache = {};
    bool checkCache = false; // read all of it before it is used
    // What happened to the cache, in one sentence.
    std::function<void(const std::string &)> notice = {};
  };

  // The packed form of the weights, made unless another session uses it already. Packs on all workers of the
  // pool. Pages of the files are dropped again once they are read. A cache that cannot be used or written is
  // no error: notice() says why.
  // SMELT_memory: no room for the packed copy. SMELT_io: a file was cut short. SMELT_weights: values or
  // scales that i8 cannot have. SMELT_interrupted. SMELT_input: a cache for hash weights, which have no
  // files.
  static Result<std::shared_ptr<const PackedWeights>> of(std::shared_ptr<const BoundWeights> source,
                                                         ThreadPool &pool, const Options &options);

  // One tensor; `layer` counts from the weight's first layer.
  const void *tensor(uint32_t weight, uint32_t layer) const { return table(weight, layer)[0]; }
  // The tensors of all experts of a layer.
  const void *const *table(uint32_t weight, uint32_t layer) const;

  uint64_t bytes() const { return data().size(); } // of the packed copy
  uint64_t hugeBytes() const;                      // of it in large pages, as the system says now

private:
  PackedWeights() = default;
  friend class WeightPacker;
  friend class CachedPacking;

  std::span<const std::byte> data() const {
    return cache ? cache->data() : std::span<const std::byte>(memory.data(), memory.size());
  }
  // Calls `use(weight, tensor, from, to)` for every tensor with a layout of its own, in the order of the
  // packed copy: its index in [layers][experts], its bytes in the file and its place in the copy. Fills
  // `pointers`.
  template <typename Use> void place(Use use);

  std::shared_ptr<const BoundWeights> source;
  // The packed copy is in one of them.
  Memory memory;
  std::optional<WeightCache> cache;
  std::vector<std::vector<const void *>> pointers; // by weight: [layers][experts]
};

} // namespace smelt::runtime
