#include "runtime/src/CodeImage.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/CpuFeatures.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <sys/mman.h>

namespace smelt::runtime {

using artifact::CodeVariant;

Result<uint32_t> CodeImage::choose(const Artifact &artifact, const char *isa, uint64_t features,
                                   uint64_t slow) {
  const artifact::Manifest &manifest = artifact.manifest();
  if (manifest.variants()->size() == 0) {
    return fail(SMELT_unsupported,
                fmt::format("{}: is compiled for {} alone; run it with --device cuda, or compile it with "
                            "--target cpu as well",
                            artifact.name(), printable(manifest.target()->string_view())));
  }
  std::string have;
  std::optional<uint32_t> slower;
  for (uint32_t i = 0; i < manifest.variants()->size(); ++i) {
    const CodeVariant &variant = *manifest.variants()->Get(i);
    std::string_view name = variant.isa()->string_view();
    bool supported = (variant.features() & ~features) == 0;
    if (isa ? name == isa : supported) {
      if (!supported) {
        return fail(SMELT_unsupported,
                    fmt::format("{}: its code for {} needs {}, which this {} machine does not have",
                                artifact.name(), printable(name),
                                featureNames(variant.features() & ~features), isaName(features)));
      }
      if (isa || (variant.features() & slow) == 0) {
        return i;
      }
      slower = slower.value_or(i);
    }
    have += (have.empty() ? "" : ", ") + printable(name);
  }
  if (slower) {
    return *slower;
  }
  return fail(SMELT_unsupported,
              isa ? fmt::format("{}: has no code for '{}'; it has {}", artifact.name(), printable(isa), have)
                  : fmt::format("{}: has code for {}, this machine is {}; compile for it", artifact.name(),
                                have, isaName(features)));
}

Result<CodeImage> CodeImage::load(const Artifact &artifact, uint32_t variant) {
  std::span<const std::byte> code = artifact.code(variant);
  auto failed = [&](const char *what, smelt_status status) {
    return fail(status,
                fmt::format("{} of code cannot be {}: {}", formatBytes(code.size()), what, errnoText(errno)));
  };
  CodeImage image;
  void *base = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    return failed("allocated", SMELT_memory);
  }
  image.base = base;
  image.length = code.size();
  std::memcpy(base, code.data(), code.size());
  if (mprotect(base, code.size(), PROT_READ | PROT_EXEC) != 0) {
    return failed("made executable", SMELT_unsupported); // a hardened system may forbid it
  }
  for (uint32_t offset : *artifact.manifest().variants()->Get(variant)->entries()) {
    image.entries.push_back(reinterpret_cast<smelt_kernel_fn>(static_cast<char *>(base) + offset));
  }
  return image;
}

CodeImage::~CodeImage() {
  if (base) {
    munmap(base, length);
  }
}

void CodeImage::swap(CodeImage &other) noexcept {
  std::swap(base, other.base);
  std::swap(length, other.length);
  std::swap(entries, other.entries);
}

} // namespace smelt::runtime
