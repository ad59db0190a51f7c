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

Result<SplatWeights> SplatWeights::generate(const artifact::Manifest &manifest, uint64_t seed,
                                            uint32_t threads) {
  constexpr uint64_t alignment = 64, piece = 1 << 20; // elements
  struct Piece {
    SplatTensor tensor;
    void *out;
    uint64_t first, count;
    bool wide; // f32
  };
  struct Work {
    std::vector<Piece> pieces;
    std::atomic<size_t> next{0};
  } work;
  uint64_t need = 0;
  auto forEach = [&](const auto &use) {
    for (const Weight *weight : *manifest.weights()) {
      for (uint32_t l = 0; l < std::max<uint32_t>(weight->layers(), 1); ++l) {
        for (uint32_t e = 0; e < std::max<uint32_t>(weight->experts(), 1); ++e) {
          use(*weight, l, e, (tensorBytes(*weight) + alignment - 1) / alignment * alignment);
        }
      }
    }
  };
  forEach([&](const Weight &, uint32_t, uint32_t, uint64_t bytes) { need += bytes; });
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
  std::byte *next = weights.memory.data();
  const Weight *current = nullptr;
  forEach([&](const Weight &weight, uint32_t layer, uint32_t expert, uint64_t bytes) {
    if (current != &weight) {
      current = &weight;
      weights.all.emplace_back();
    }
    weights.all.back().push_back(next);
    std::string name =
        expandName(weight.name()->string_view(), uint64_t(weight.first_layer()) + layer, expert);
    SplatTensor tensor = splatTensor(seed, name, {weight.shape()->data(), weight.shape()->size()});
    bool wide = weight.dtype() == DType::f32;
    uint64_t count = tensorBytes(weight) / (wide ? 4 : 2);
    for (uint64_t first = 0; first < count; first += piece) {
      work.pieces.push_back({tensor, next, first, std::min(piece, count - first), wide});
    }
    next += bytes;
  });
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(int32_t(threads));
  if (!pool.ok()) {
    return pool.takeStatus();
  }
  auto fill = [](void *context, int32_t, int32_t) {
    Work &work = *static_cast<Work *>(context);
    for (size_t i; (i = work.next.fetch_add(1)) < work.pieces.size();) {
      const Piece &piece = work.pieces[i];
      for (uint64_t k = piece.first; k < piece.first + piece.count; ++k) {
        uint16_t value = splatValue(piece.tensor, uint32_t(k));
        if (piece.wide) {
          static_cast<float *>(piece.out)[k] = std::bit_cast<float>(uint32_t(value) << 16);
        } else {
          static_cast<uint16_t *>(piece.out)[k] = value;
        }
      }
    }
  };
  (*pool)->run(fill, &work);
  return weights;
}

} // namespace smelt::runtime
