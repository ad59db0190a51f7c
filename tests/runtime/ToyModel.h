// A toy model for tests of the runtime: embedding, a looped segment that mixes a causal sum of its own state
// into x and adds one of two experts, and a tied head. Its artifact is built here, without the compiler.
#pragma once

#include "runtime/schema/manifest_generated.h"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace smelt::tests {

constexpr int toyVocab = 11, toyWidth = 4, toyExperts = 2;

struct ToyShape {
  uint32_t layers = 3, visits = 2;
  artifact::VisitOrder order = artifact::VisitOrder::block;
};

// Indices into the toy manifest's tables.
namespace toy {
enum Buffers { tokenIds, positions, sequenceIds, logitRows, x, state, logits };
enum Weights { embedding, scale, expert };
enum Kernels { embed, append, mix, experts, head };
} // namespace toy

// A sound manifest; tests change it to make unsound ones.
artifact::ManifestT toyManifest(const ToyShape &shape = {});

// Bytes at a 64-byte aligned address, allocated exactly, so that a sanitizer sees any read past them.
class AlignedBytes {
public:
  explicit AlignedBytes(std::span<const std::byte> bytes);
  std::span<const std::byte> bytes() const { return {data.get(), size}; }
  std::span<std::byte> bytes() { return {data.get(), size}; }

private:
  struct Free {
    void operator()(std::byte *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<std::byte, Free> data;
  size_t size;
};

// An artifact file of the manifest and one code image, header and checksum right.
std::string packArtifact(const artifact::ManifestT &manifest, std::string_view code);
// The machine code of ToyKernels.c, at the offsets that toyManifest's entries hold.
std::string_view toyCode();
// Offset of a toy kernel in it.
uint32_t toyEntry(const void *kernel);
// Recomputes the checksum of an artifact that a test has changed.
void fixChecksum(std::string &artifact);

struct ToyWeights {
  std::vector<float> embedding;                        // [vocab][width]
  std::vector<std::vector<float>> scale;               // [layers][width]
  std::vector<std::vector<std::vector<float>>> expert; // [layers][experts][width]
};
ToyWeights toyWeights(const ToyShape &shape = {});
// Tensor names as the manifest has them.
std::string toySafetensors(const ToyWeights &weights);

struct RawTensor {
  std::string name, dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};
std::string packSafetensors(const std::vector<RawTensor> &tensors);
std::vector<RawTensor> toyTensors(const ToyWeights &weights);

// What the model must compute: logits [tokens][vocab] of one sequence, in the same order of operations.
std::vector<float> toyReference(const ToyWeights &weights, const ToyShape &shape,
                                std::span<const int32_t> tokens);

// A folder for one test, removed with everything in it.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path(const std::string &name) const { return folder + "/" + name; }
  std::string write(const std::string &name, std::string_view bytes) const;
  // Number of files in it.
  size_t count() const;

private:
  std::string folder;
};

std::string readFile(const std::string &path);

} // namespace smelt::tests
