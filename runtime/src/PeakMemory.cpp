#include "runtime/src/PeakMemory.h"

#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/ProgramTables.h"
#include "runtime/src/WeightPacking.h"

#include <algorithm>
#include <cmath>

namespace smelt::runtime {

namespace {

// What a process takes besides its session and weights; measured with smelt-run.
constexpr uint64_t processBytes = uint64_t(19) << 18; // program, libraries, stacks
constexpr uint64_t bytesPerTensor = 500;              // headers of files, tables of names and pointers
constexpr uint64_t bytesPerLaunch = 300;

// Of the weights that are read where the file has them, what a session touches: all, but of a table that rows
// are gathered from, the pages a fault maps around each row of so many random ones.
uint64_t touchedBytes(const artifact::Manifest &manifest, const MemoryPlan &plan, bool generated) {
  constexpr double window = 64 << 10;
  std::vector<bool> gathered(manifest.weights()->size());
  forEachCall(ProgramTables(manifest), [&](const CallPlace &place) {
    if (manifest.kernels()->Get(place.kernel)->role()->string_view() == "embed") {
      for (const artifact::Binding *binding : *place.call->bindings()) {
        if (binding->kind() == artifact::BindingKind::weight) {
          gathered[binding->index()] = true;
        }
      }
    }
  });
  uint64_t sum = 0;
  for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
    const artifact::Weight &weight = *manifest.weights()->Get(i);
    if (weight.layout() != artifact::WeightLayout::row_major) {
      continue;
    }
    double bytes = double(tensorBytes(weight) * std::max<uint32_t>(weight.layers(), 1) *
                          std::max<uint32_t>(weight.experts(), 1));
    if (gathered[i] && !generated) {
      double rows = double(plan.extent.sequences) * double(plan.extent.capacity);
      bytes *= 1 - std::exp(rows * std::log1p(-std::min(1.0, window / bytes) * (1 - 1e-9)));
    }
    sum += uint64_t(bytes);
  }
  return sum;
}

// What is in memory of the files when all weights are packed but the last pieces: one of the largest.
uint64_t packingBytes(const artifact::Manifest &manifest) {
  uint64_t largest = 0;
  for (const artifact::Weight *weight : *manifest.weights()) {
    if (weight->layout() != artifact::WeightLayout::row_major) {
      largest = std::max(largest, tensorBytes(*weight));
    }
  }
  return std::min(largest, packingPieceBytes);
}

} // namespace

uint64_t peakMemory(const Artifact &artifact, const MemoryPlan &plan, bool generated) {
  const artifact::Manifest &manifest = artifact.manifest();
  uint64_t tensors = 0, code = 0;
  for (const artifact::Weight *weight : *manifest.weights()) {
    tensors += uint64_t(std::max<uint32_t>(weight->layers(), 1)) * std::max<uint32_t>(weight->experts(), 1);
  }
  for (const artifact::CodeVariant *variant : *manifest.variants()) {
    code = std::max<uint64_t>(code, variant->size());
  }
  uint64_t logits = plan.extent.logitRows * manifest.vocab_size() * sizeof(float); // the caller's
  // The session and the weights it reads from files are touched after packing; hash weights are made before
  // it.
  uint64_t touched = touchedBytes(manifest, plan, generated), before = generated ? touched : 0;
  uint64_t after = touched - before + plan.memory.total + logits;
  return plan.memory.packed_weights + before + std::max(packingBytes(manifest), after) + 2 * code +
         tensors * bytesPerTensor + artifact.launchesPerStep() * bytesPerLaunch + processBytes;
}

} // namespace smelt::runtime
