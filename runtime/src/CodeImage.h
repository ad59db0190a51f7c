// The machine code of one variant, executable.
#pragma once

#include "runtime/src/Artifact.h"

#include <vector>

namespace smelt::runtime {

class CodeImage {
public:
  // The first variant this machine supports, or the one named `isa` when that is not null. Variants that need
  // a feature of `slow` come after all others. SMELT_unsupported names what the artifact has and what the
  // machine has.
  static Result<uint32_t> choose(const Artifact &artifact, const char *isa, uint64_t features,
                                 uint64_t slow = 0);
  // Copies the variant's image to fresh pages and makes them executable, never writable at the same time.
  static Result<CodeImage> load(const Artifact &artifact, uint32_t variant);

  CodeImage() = default;
  CodeImage(CodeImage &&other) noexcept { swap(other); }
  CodeImage &operator=(CodeImage &&other) noexcept {
    swap(other);
    return *this;
  }
  ~CodeImage();

  smelt_kernel_fn entry(uint32_t kernel) const { return entries[kernel]; }

private:
  void swap(CodeImage &other) noexcept;

  void *base = nullptr;
  size_t length = 0;
  std::vector<smelt_kernel_fn> entries;
};

} // namespace smelt::runtime
