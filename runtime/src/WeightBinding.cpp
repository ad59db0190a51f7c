#include "runtime/src/WeightBinding.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/Quantize.h"
#include "runtime/src/Text.h"
#include "runtime/src/WeightPacking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 // Linux 5.14
#endif

namespace smelt::runtime {

using artifact::DType;
using artifact::Manifest;
using artifact::Weight;
using artifact::WeightLayout;

namespace {

constexpr std::string_view embeddingName = "model.embed_tokens.weight";
constexpr std::string_view headName = "lm_head.weight";

const char *fileDType(DType dtype) {
  return dtype == DType::i8 ? "I8" : dtype == DType::bf16 ? "BF16" : "F32";
}

// The type of weights that the dtype of a file stands for.
std::optional<DType> weightType(std::string_view dtype) {
  for (DType known : {DType::f32, DType::bf16, DType::i8}) {
    if (dtype == fileDType(known)) {
      return known;
    }
  }
  return std::nullopt;
}

uint64_t pageSize() {
  static const uint64_t size = uint64_t(sysconf(_SC_PAGESIZE));
  return size;
}

// Problems of one kind, so that a flood of one does not hide another.
struct Mismatches {
  const char *title;
  ProblemList list{10};
};

} // namespace

class WeightBinder {
public:
  WeightBinder(BoundWeights &bound) : bound(bound), manifest(bound.owner->manifest()) {}

  Status run() {
    indexFiles();
    for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
      bindWeight(*manifest.weights()->Get(i));
    }
    reportExtra();
    if (Status status = verdict(); !status.ok()) {
      return status;
    }
    return copyUnfit();
  }

private:
  struct Found {
    const WeightFile *file = nullptr;
    const TensorEntry *entry = nullptr;
    bool used = false;

    const std::byte *data() const { return file->file.bytes().data() + entry->begin; }
  };

  void indexFiles() {
    size_t count = 0;
    for (const WeightFile &file : bound.files) {
      count += file.header.tensors.size();
    }
    names.reserve(count);
    tensors.reserve(count);
    for (const WeightFile &file : bound.files) {
      for (const TensorEntry &entry : file.header.tensors) {
        auto [first, isNew] = names.try_emplace(entry.name, tensors.size());
        if (isNew) {
          tensors.push_back({&file, &entry});
        } else {
          twice.list.add(fmt::format("'{}' in {} and {}", printable(entry.name),
                                     tensors[first->second].file->file.path(), file.file.path()));
        }
      }
    }
  }

  void bindWeight(const Weight &weight) {
    uint32_t layers = std::max<uint32_t>(weight.layers(), 1),
             experts = std::max<uint32_t>(weight.experts(), 1);
    std::vector<const void *> &pointers = bound.pointers.emplace_back();
    std::vector<QuantSource> &sources = bound.sources.emplace_back();
    pointers.reserve(size_t(layers) * experts);
    sources.reserve(weight.dtype() == DType::i8 ? pointers.capacity() : 0);
    std::string_view pattern = weight.name()->string_view();
    for (uint32_t layer = 0; layer < layers; ++layer) {
      for (uint32_t expert = 0; expert < experts; ++expert) {
        expandName(pattern, uint64_t(weight.first_layer()) + layer, expert, name);
        const Found *found = find(weight);
        pointers.push_back(found ? found->data() : nullptr);
        if (found && weight.dtype() == DType::i8) {
          sources.push_back(quantSource(weight, *found));
        }
      }
    }
    bound.totalBytes += tensorBytes(weight) * layers * experts;
  }

  // The tensor of this name. Null, and reported, when there is none.
  const Found *find(const Weight &weight) {
    std::span<const uint64_t> shape(weight.shape()->data(), weight.shape()->size());
    const Found *found = look(fileDType(weight.dtype()), shape);
    if (!found) {
      return nullptr;
    }
    if (!takes(weight, *found)) {
      dtype.list.add(fmt::format("'{}' is {}, the model wants {}", printable(name), found->entry->dtype,
                                 fileDType(weight.dtype())));
      offered = offered.empty() ? found->entry->dtype : offered;
    }
    bool dense = weight.experts() == 0; // read in every step, unlike an expert
    if (dense && weight.layout() == WeightLayout::row_major) {
      adviseWillNeed(*found);
    }
    return found;
  }

  const Found *look(const char *type, std::span<const uint64_t> shape) {
    auto number = names.find(name);
    if (number == names.end()) {
      missing.list.add(fmt::format("'{}' {} {}", printable(name), type, formatShape(shape)));
      return nullptr;
    }
    Found &found = tensors[number->second];
    found.used = true;
    const TensorEntry &entry = *found.entry;
    if (!entry.hasShape(shape)) {
      this->shape.list.add(fmt::format("'{}' is {}, the model wants {}", printable(name),
                                       formatShape(entry.shape), formatShape(shape)));
    }
    return &found;
  }

  // Whether a tensor is of the type of the weight, or is one that becomes it when it is loaded.
  bool takes(const Weight &weight, const Found &found) {
    std::optional<DType> stored = weightType(found.entry->dtype);
    if (stored == weight.dtype()) {
      return true;
    }
    if (weight.dtype() == DType::i8) {
      return stored.has_value();
    }
    bool kept = manifest.weights_dtype() == DType::i8 && weight.dtype() == DType::bf16;
    if (!kept || stored != DType::f32) {
      return false;
    }
    toRound.insert(found.data());
    return true;
  }

  QuantSource quantSource(const Weight &weight, const Found &found) {
    QuantSource source{weightType(found.entry->dtype).value_or(DType::i8)};
    if (source.stored != DType::i8) {
      ++bound.unquantizedTensors;
      return source;
    }
    const uint64_t shape[] = {weight.shape()->Get(0), quantBlocks(weight.shape()->Get(1))};
    name += "_scale";
    const Found *scales = look("BF16", shape);
    if (scales && scales->entry->dtype != "BF16") {
      dtype.list.add(fmt::format("'{}' is {}, the model wants BF16", printable(name), scales->entry->dtype));
    }
    source.scales = scales ? scales->data() : nullptr;
    return source;
  }

  static void adviseWillNeed(const Found &found) {
    auto begin = reinterpret_cast<uintptr_t>(found.data()) & ~(pageSize() - 1);
    auto end = reinterpret_cast<uintptr_t>(found.file->file.bytes().data() + found.entry->end);
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_WILLNEED);
  }

  // Whether an unclaimed tensor is the doubled embedding of a tied model.
  bool isTiedHead(const Found &found) {
    auto number = names.find(embeddingName);
    if (found.entry->name != headName || number == names.end()) {
      return false;
    }
    const Found &embedding = tensors[number->second];
    const TensorEntry &a = *found.entry, &b = *embedding.entry;
    return embedding.used && a.dtype == b.dtype && a.hasShape(b.shape) &&
           std::memcmp(found.data(), embedding.data(), a.end - a.begin) == 0;
  }

  void reportExtra() {
    for (const Found &found : tensors) {
      if (found.used || isTiedHead(found)) {
        continue;
      }
      const TensorEntry &entry = *found.entry;
      extra.list.add(fmt::format("'{}' {} {}{}", printable(entry.name), entry.dtype, formatShape(entry.shape),
                                 entry.name == headName
                                     ? ", which differs from the embedding; set tie_embeddings "
                                       "= false if the model has a head of its own"
                                     : ""));
    }
  }

  Status verdict() {
    uint64_t total = 0;
    std::string text;
    for (const Mismatches *part : {&missing, &extra, &twice, &dtype, &shape}) {
      if (!part->list.empty()) {
        total += part->list.size();
        text += fmt::format("\n {}:{}", part->title, part->list.text());
      }
    }
    if (total == 0) {
      return success();
    }
    if (!dtype.list.empty()) {
      std::optional<DType> other = weightType(offered);
      text += other ? fmt::format("\n fix: compile with --weights-dtype {}, or convert the file",
                                  EnumNameDType(*other))
                    : "\n fix: convert the file";
    }
    return fail(SMELT_weights, fmt::format("the weights do not fit model '{}' of {} ({} mismatch{}):{}",
                                           printable(manifest.model_name()->string_view()),
                                           bound.owner->name(), total, total == 1 ? "" : "es", text));
  }

  // Kernels may rely on element alignment, which old writers of the format did not keep; and on bf16, where
  // the file may have f32. Matrices of i8 are packed from whatever the file has.
  Status copyUnfit() {
    constexpr uint64_t alignment = 64;
    auto forEach = [&](const auto &action) {
      for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
        const Weight &weight = *manifest.weights()->Get(i);
        for (const void *&pointer : bound.pointers[i]) {
          bool misaligned = reinterpret_cast<uintptr_t>(pointer) % elementBytes(weight.dtype()) != 0;
          if (misaligned || toRound.contains(pointer)) {
            action(pointer, tensorBytes(weight));
          }
        }
      }
    };
    uint64_t need = 0;
    forEach([&](const void *, uint64_t bytes) { need += (bytes + alignment - 1) / alignment * alignment; });
    if (need == 0) {
      return success();
    }
    void *memory = mmap(nullptr, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(SMELT_memory,
                  fmt::format("{} for tensors that cannot be used where their file has them: {}",
                              formatBytes(need), errnoText(errno)));
    }
    bound.copies = memory;
    bound.copiedBytes = need;
    std::byte *next = static_cast<std::byte *>(memory);
    forEach([&](const void *&pointer, uint64_t bytes) {
      if (toRound.contains(pointer)) {
        round(pointer, bytes / 2, next);
      } else {
        std::memcpy(next, pointer, bytes);
      }
      pointer = next;
      next += (bytes + alignment - 1) / alignment * alignment;
    });
    mprotect(memory, need, PROT_READ);
    return success();
  }

  static void round(const void *from, uint64_t count, std::byte *to) {
    float values[1024]; // the file may be aligned to nothing
    for (uint64_t begin = 0; begin < count; begin += std::size(values)) {
      uint64_t size = std::min<uint64_t>(std::size(values), count - begin);
      std::memcpy(values, static_cast<const std::byte *>(from) + begin * 4, size * 4);
      roundToBf16(values, reinterpret_cast<uint16_t *>(to) + begin, size);
    }
  }

  BoundWeights &bound;
  const Manifest &manifest;
  std::unordered_map<std::string_view, size_t> names; // places in `tensors`
  std::vector<Found> tensors;                         // in file order, so that messages are stable
  std::string name;                                   // of the tensor at hand
  std::unordered_set<const void *> toRound;           // f32 tensors of bf16 weights
  std::string_view offered;                           // the dtype of the first tensor of a wrong one
  Mismatches missing{"missing"}, extra{"extra"}, twice{"in two files"}, dtype{"dtype"}, shape{"shape"};
};

Result<std::shared_ptr<const BoundWeights>> BoundWeights::bind(std::shared_ptr<const Artifact> artifact,
                                                               std::span<const std::string> paths) {
  for (const std::string &path : paths) {
    if (std::optional<Result<uint64_t>> seed = parseSplat(path)) {
      return paths.size() == 1 ? splat(std::move(artifact), *seed)
                               : fail(SMELT_usage, "splat:SEED makes all weights; give no file beside it");
    }
  }
  Result<std::vector<WeightFile>> files = openWeightFiles(paths);
  if (!files.ok()) {
    return files.takeStatus();
  }
  auto bound = std::shared_ptr<BoundWeights>(new BoundWeights);
  bound->owner = std::move(artifact);
  bound->files = std::move(*files);
  if (Status status = WeightBinder(*bound).run(); !status.ok()) {
    return status;
  }
  return std::shared_ptr<const BoundWeights>(std::move(bound));
}

Result<std::shared_ptr<const BoundWeights>> BoundWeights::splat(std::shared_ptr<const Artifact> artifact,
                                                                Result<uint64_t> seed) {
  if (!seed.ok()) {
    return seed.takeStatus();
  }
  auto bound = std::shared_ptr<BoundWeights>(new BoundWeights);
  bound->owner = std::move(artifact);
  bound->seed = *seed;
  for (const Weight *weight : *bound->owner->manifest().weights()) {
    uint64_t tensors =
        uint64_t(std::max<uint32_t>(weight->layers(), 1)) * std::max<uint32_t>(weight->experts(), 1);
    bound->totalBytes += tensorBytes(*weight) * tensors;
    bound->unquantizedTensors += weight->dtype() == DType::i8 ? tensors : 0;
  }
  return std::shared_ptr<const BoundWeights>(std::move(bound));
}

Status BoundWeights::generate(uint32_t threads) const {
  std::lock_guard lock(generating);
  if (!seed || generated) {
    return success();
  }
  Result<SplatWeights> made = SplatWeights::generate(owner->manifest(), *seed, threads);
  if (!made.ok()) {
    return made.takeStatus();
  }
  generated.emplace(std::move(*made));
  return success();
}

const void *const *BoundWeights::table(uint32_t weight, uint32_t layer) const {
  uint32_t experts = std::max<uint32_t>(owner->manifest().weights()->Get(weight)->experts(), 1);
  const std::vector<std::vector<const void *>> &pointers = generated ? generated->pointers() : this->pointers;
  return pointers[weight].data() + size_t(layer) * experts;
}

QuantSource BoundWeights::quantSource(uint32_t weight, size_t tensor) const {
  return seed ? QuantSource{DType::bf16} : sources[weight][tensor]; // hash weights are bf16
}

void BoundWeights::dropPages(const void *begin, uint64_t bytes) const {
  constexpr uintptr_t around = uintptr_t(2) << 20; // what a fault may map when it is in the page cache
  for (const WeightFile &file : files) {
    auto fileBegin = reinterpret_cast<uintptr_t>(file.file.bytes().data()),
         fileEnd = fileBegin + file.file.bytes().size(), first = reinterpret_cast<uintptr_t>(begin);
    if (first < fileBegin || first >= fileEnd) {
      continue;
    }
    uintptr_t from = std::max(fileBegin, first & ~(around - 1));
    uintptr_t to = std::min(fileEnd, (first + bytes + around - 1) & ~(around - 1));
    madvise(reinterpret_cast<void *>(from), to - from, MADV_DONTNEED);
  }
}

Status BoundWeights::checkFiles() const {
  for (const WeightFile &file : files) {
    if (file.file.currentSize() < file.file.bytes().size()) {
      return fail(SMELT_io, fmt::format("{}: was cut short while in use: {} of {} bytes are left",
                                        file.file.path(), file.file.currentSize(), file.file.bytes().size()));
    }
  }
  return success();
}

Status BoundWeights::preload(const std::function<bool(uint64_t, uint64_t)> &progress) const {
  constexpr uint64_t piece = uint64_t(64) << 20;
  if (packedBytes(owner->manifest()) > 0) {
    return success();
  }
  uint64_t total = 0, done = 0;
  for (const WeightFile &file : files) {
    total += file.file.bytes().size();
  }
  for (const WeightFile &file : files) {
    std::span<const std::byte> bytes = file.file.bytes();
    for (uint64_t offset = 0; offset < bytes.size(); offset += piece) {
      if (progress && !progress(done, total)) {
        return fail(SMELT_interrupted, "stopped while reading the weights");
      }
      if (Status status = checkFiles(); !status.ok()) {
        return status;
      }
      uint64_t size = std::min<uint64_t>(piece, bytes.size() - offset);
      void *start = const_cast<std::byte *>(bytes.data() + offset);
      if (madvise(start, size, MADV_POPULATE_READ) != 0) {
        if (errno != EINVAL) {
          return fail(SMELT_io, fmt::format("{}: cannot be read at byte {}: {}", file.file.path(), offset,
                                            errnoText(errno)));
        }
        madvise(start, size, MADV_WILLNEED); // an older kernel: ask, do not wait
      }
      done += size;
    }
  }
  if (progress) {
    progress(total, total);
  }
  return success();
}

BoundWeights::~BoundWeights() {
  if (copies) {
    munmap(copies, copiedBytes);
  }
}

} // namespace smelt::runtime
