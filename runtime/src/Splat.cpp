#include "runtime/src/Splat.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/Text.h"
#include "runtime/src/ThreadPool.h"

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>

namespace smelt::runtime {

using artifact::DType;
using artifact::Weight;
using artifact::WeightLayout;

namespace {

constexpr std::string_view prefix = "splat:";

bool holds(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

double deviationOf(std::string_view name, std::span<const uint64_t> shape) {
  if (holds(name, "norm")) {
    return 0;
  }
  if (name.ends_with(".bias")) {
    return 0.1;
  }
  if (holds(name, "embed_tokens")) {
    return 1;
  }
  double factor = holds(name, "o_proj") ? 0.1 : holds(name, "down_proj") ? 0.5 : 1.0;
  return factor / std::sqrt(double(shape.empty() ? 1 : shape.back()));
}

} // namespace

SplatTensor splatTensor(uint64_t seed, std::string_view name, std::span<const uint64_t> shape) {
  uint64_t h = 0xcbf29ce484222325;
  for (char byte : name) {
    h = (h ^ uint8_t(byte)) * 0x100000001b3;
  }
  h += seed * 0x9e3779b97f4a7c15;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  h = (h ^ h >> 27) * 0x94d049bb133111eb;
  SplatTensor tensor;
  tensor.key = h ^ h >> 31;
  tensor.scale = float(deviationOf(name, shape) / std::sqrt(4294967295.0 / 6));
  tensor.mean = holds(name, "norm") ? 1.0f : 0.0f;
  return tensor;
}

uint16_t splatValue(const SplatTensor &tensor, uint32_t index) {
  uint32_t x = index * 0x9e3779b1 + uint32_t(tensor.key);
  x = (x ^ x >> 16) * 0x7feb352d;
  x = (x ^ x >> 15) + uint32_t(tensor.key >> 32);
  x *= 0x846ca68b;
  x ^= x >> 16;
  float value = float(int32_t(x & 0xffff) + int32_t(x >> 16) - 65535) * tensor.scale;
  auto bits = std::bit_cast<uint32_t>(value + tensor.mean);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::optional<Result<uint64_t>> parseSplat(std::string_view path) {
  if (!path.starts_with(prefix)) {
    return std::nullopt;
  }
  std::string_view digits = path.substr(prefix.size());
  uint64_t seed = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return fail(SMELT_usage,
                fmt::format("'{}' should be splat:SEED, SEED a whole number of 64 bits", printable(path)));
  }
  return Result<uint64_t>(seed);
}

void fillSplat(const SplatTensor &tensor, uint64_t elementBytes, uint64_t first, uint64_t count,
               std::byte *out) {
  for (uint64_t k = 0; k < count; ++k) {
    uint16_t value = splatValue(tensor, uint32_t(first + k));
    if (elementBytes == 4) {
      reinterpret_cast<float *>(out)[k] = std::bit_cast<float>(uint32_t(value) << 16);
    } else {
      reinterpret_cast<uint16_t *>(out)[k] = value;
    }
  }
}

namespace {

// Elements of one tensor, for one worker at a time.
struct SplatPiece {
  SplatTensor tensor;
  uint64_t elementBytes, first, count;
  std::byte *out; // of the first one

  void fill() const { fillSplat(tensor, elementBytes, first, count, out); }
};

Status fillPieces(const std::vector<SplatPiece> &pieces, uint32_t threads) {
  struct Work {
    const std::vector<SplatPiece> &pieces;
    std::atomic<size_t> next{0};
  } work{pieces};
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(int32_t(threads));
  if (!pool.ok()) {
    return pool.takeStatus();
  }
  auto run = [](void *context, int32_t, int32_t) {
    Work &work = *static_cast<Work *>(context);
    for (size_t i; (i = work.next.fetch_add(1)) < work.pieces.size();) {
      work.pieces[i].fill();
    }
  };
  (*pool)->run(run, &work);
  return success();
}

uint64_t splatElements(const Weight &weight) {
  uint64_t elements = 1;
  for (uint64_t dim : *weight.shape()) {
    elements *= dim;
  }
  return elements;
}

uint64_t splatBytes(const Weight &weight) { return weight.dtype() == DType::f32 ? 4 : 2; } // of an element

// Calls `use` with every tensor of the model: weight, its index, layer, expert, and bytes rounded up.
// Those of i8 weights are bf16 until they are packed. 0 bytes for one with a layout of its own, which is
// generated when it is packed.
template <typename Use> void forEachTensor(const artifact::Manifest &manifest, Use use) {
  constexpr uint64_t alignment = 64;
  for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
    const Weight &weight = *manifest.weights()->Get(i);
    uint64_t bytes = (splatElements(weight) * splatBytes(weight) + alignment - 1) / alignment * alignment;
    if (weight.layout() != WeightLayout::row_major) {
      bytes = 0;
    }
    for (uint32_t layer = 0; layer < std::max<uint32_t>(weight.layers(), 1); ++layer) {
      for (uint32_t expert = 0; expert < std::max<uint32_t>(weight.experts(), 1); ++expert) {
        use(weight, i, layer, expert, bytes);
      }
    }
  }
}

} // namespace

Result<SplatWeights> SplatWeights::generate(const artifact::Manifest &manifest, uint64_t seed,
                                            uint32_t threads) {
  constexpr uint64_t pieceElements = 1 << 20;
  uint64_t need = 0;
  forEachTensor(manifest,
                [&](const Weight &, uint32_t, uint32_t, uint32_t, uint64_t bytes) { need += bytes; });
  if (uint64_t available = availableMemory(); need > available) {
    return fail(SMELT_memory, fmt::format("splat weights take {}, {} is available", formatBytes(need),
                                          formatBytes(available)));
  }
  Result<Memory> memory = Memory::allocate(need, "splat weights");
  if (!memory.ok()) {
    return memory.takeStatus();
  }
  SplatWeights weights;
  weights.memory = std::move(*memory);
  weights.all.resize(manifest.weights()->size());
  std::vector<SplatPiece> pieces;
  std::byte *next = weights.memory.data();
  forEachTensor(
      manifest, [&](const Weight &weight, uint32_t index, uint32_t layer, uint32_t expert, uint64_t bytes) {
        if (bytes == 0) {
          weights.all[index].push_back(nullptr);
          return;
        }
        std::string name =
            expandName(weight.name()->string_view(), uint64_t(weight.first_layer()) + layer, expert);
        SplatTensor tensor = splatTensor(seed, name, {weight.shape()->data(), weight.shape()->size()});
        uint64_t elementBytes = splatBytes(weight);
        uint64_t count = splatElements(weight);
        for (uint64_t first = 0; first < count; first += pieceElements) {
          pieces.push_back({tensor, elementBytes, first, std::min(pieceElements, count - first),
                            next + first * elementBytes});
        }
        weights.all[index].push_back(next);
        next += bytes;
      });
  if (Status status = fillPieces(pieces, threads); !status.ok()) {
    return status;
  }
  return weights;
}

} // namespace smelt::runtime
