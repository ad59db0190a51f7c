// Any bytes are a sound artifact or are refused with a message. Sizes in the header are mended and the
// checksum is skipped, so that mutations reach the manifest's verifier; what it accepts is planned for a
// session.
#include "runtime/src/Artifact.h"
#include "runtime/src/CodeImage.h"
#include "runtime/src/MemoryPlan.h"
#include "runtime/src/cuda/DevicePlan.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

// A copy at a 64-byte aligned address, allocated exactly.
std::unique_ptr<std::byte, Free> alignedCopy(const uint8_t *data, size_t size) {
  void *memory = nullptr;
  require(posix_memalign(&memory, 64, size) == 0);
  std::memcpy(memory, data, size);
  return std::unique_ptr<std::byte, Free>(static_cast<std::byte *>(memory));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace smelt::runtime;
  if (size < sizeof(smelt_artifact_header)) {
    return 0;
  }
  std::unique_ptr<std::byte, Free> copy = alignedCopy(data, size);
  uint64_t fileSize = size;
  std::memcpy(copy.get() + offsetof(smelt_artifact_header, file_size), &fileSize, sizeof fileSize);
  auto artifact = Artifact::parse("fuzz.smelt", {copy.get(), size}, {.verifyChecksum = false});
  if (!artifact.ok()) {
    require(artifact.status().code == SMELT_artifact && !artifact.status().message.empty());
    return 0;
  }
  for (uint32_t capacity : {16u, 1u << 30}) {
    smelt_session_options options = {};
    options.sequences = 3;
    options.capacity = capacity;
    options.max_step_tokens = 512;
    require(resolveOptions(options).ok());
    auto plan = planMemory(**artifact, options);
    require(plan.ok() || plan.status().code == SMELT_memory);
    if (const auto *devices = (*artifact)->manifest().devices()) {
      for (const auto *target : *devices) {
        auto device = cuda::planDevice(**artifact, *target, options);
        require(device.ok() || device.status().code == SMELT_memory ||
                device.status().code == SMELT_unsupported);
        for (const auto *image : *target->images()) {
          require(!(*artifact)->image(*image).empty());
        }
      }
    }
  }
  auto variant = CodeImage::choose(**artifact, nullptr, ~uint64_t(0));
  if (variant.ok()) {
    require(!(*artifact)->code(*variant).empty());
  }
  return 0;
}
