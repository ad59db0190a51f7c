// Weights of an artifact, found in safetensors files and mapped.
#pragma once

#include "runtime/src/Splat.h"
#include "runtime/src/WeightFiles.h"

#include <functional>
#include <mutex>

namespace smelt::artifact {
enum class DType : uint8_t;
} // namespace smelt::artifact

namespace smelt::runtime {

// What the data of an i8 weight's tensor is.
struct QuantSource {
  artifact::DType stored;       // i8: codes; f32 or bf16: weights still to be quantised
  const void *scales = nullptr; // of i8, at any alignment
};

class BoundWeights {
public:
  // Finds every tensor the manifest wants. SMELT_weights lists all that is missing, extra, doubled, or of
  // another dtype or shape. An extra lm_head.weight is accepted if it equals the embedding of a model that
  // has no head of its own. A model compiled for i8 takes its matrices in I8 with their scales, or in F32 or
  // BF16, and everything else in BF16, or in F32, which is rounded.
  static Result<std::shared_ptr<const BoundWeights>> bind(std::shared_ptr<const Artifact> artifact,
                                                          std::span<const std::string> paths);

  // One tensor; `layer` counts from the weight's first layer.
  const void *tensor(uint32_t weight, uint32_t layer) const { return table(weight, layer)[0]; }
  // The tensors of all experts of a layer.
  const void *const *table(uint32_t weight, uint32_t layer) const;
  // Of an i8 weight; `tensor` counts in the order [layers][experts].
  QuantSource quantSource(uint32_t weight, size_t tensor) const;
  // Tensors of i8 weights that are still to be quantised.
  uint64_t unquantized() const { return unquantizedTensors; }

  const std::shared_ptr<const Artifact> &artifact() const { return owner; }
  uint64_t bytes() const { return totalBytes; }
  // The files they are in; none for hash weights.
  std::span<const WeightFile> weightFiles() const { return files; }
  // The seed when the weights are hashes of it and not from files; see Splat.h.
  std::optional<uint64_t> splatSeed() const { return seed; }
  // Makes hash weights in memory, once, other than those with a layout of their own, whose pointers stay
  // null; does nothing for weights from files. tensor() and table() need it.
  Status generate(uint32_t threads) const;
  // Takes the pages of these bytes, if they lie in a mapped file, and those that a fault maps along with them
  // out of the process. They stay in the page cache.
  void dropPages(const void *begin, uint64_t bytes) const;
  // SMELT_io when a file was cut short since it was mapped: touching its missing pages would kill the
  // process.
  Status checkFiles() const;
  // Reads all mapped pages; see smelt_weights_preload. `progress` returns false to stop. Does nothing when
  // packing will read them, or has.
  Status preload(const std::function<bool(uint64_t done, uint64_t total)> &progress) const;

  ~BoundWeights();

private:
  BoundWeights() = default;
  friend class WeightBinder;
  static Result<std::shared_ptr<const BoundWeights>> splat(std::shared_ptr<const Artifact> artifact,
                                                           Result<uint64_t> seed);
  friend class PackedWeights;

  std::shared_ptr<const Artifact> owner;
  std::vector<WeightFile> files;
  std::vector<std::vector<const void *>> pointers; // by weight: [layers][experts]
  std::vector<std::vector<QuantSource>> sources;   // the same, of i8 weights from files
  uint64_t unquantizedTensors = 0;
  uint64_t totalBytes = 0;
  std::optional<uint64_t> seed;
  mutable std::mutex generating;
  mutable std::optional<SplatWeights> generated;
  // Copies of tensors whose file breaks element alignment, or has f32 where the model has bf16.
  void *copies = nullptr;
  uint64_t copiedBytes = 0;
  // The packed form, while a session uses it.
  mutable std::mutex packing;
  mutable std::weak_ptr<const class PackedWeights> packed;
};

} // namespace smelt::runtime
