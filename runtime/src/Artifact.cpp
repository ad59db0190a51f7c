#include "runtime/src/Artifact.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace smelt::runtime {
namespace {

constexpr size_t headerSize = sizeof(smelt_artifact_header);
constexpr uint64_t manifestAlignment = 64;
// The verifier walks the manifest recursively and counts tables: bounds far above any real model.
constexpr unsigned maxManifestDepth = 16;
constexpr unsigned maxManifestTables = 1 << 20;
constexpr uint64_t maxManifestSize = uint64_t(1) << 30; // FlatBuffers' own limit is 2 GiB

Status damaged(const std::string &name, const std::string &what) {
  return fail(SMELT_artifact, fmt::format("{}: {}; compile or copy the artifact again", name, what));
}

Status checkHeader(const std::string &name, std::span<const std::byte> bytes, ArtifactOptions options) {
  if (bytes.size() < headerSize) {
    return fail(SMELT_artifact,
                fmt::format("{}: is not a smelt artifact: it has {} bytes, the header alone has {}", name,
                            bytes.size(), headerSize));
  }
  smelt_artifact_header header;
  std::memcpy(&header, bytes.data(), headerSize);
  if (std::memcmp(header.magic, SMELT_ARTIFACT_MAGIC, sizeof header.magic) != 0) {
    return fail(SMELT_artifact,
                fmt::format("{}: is not a smelt artifact: it starts with '{}', not '{}'", name,
                            printable({header.magic, sizeof header.magic}), SMELT_ARTIFACT_MAGIC));
  }
  if (header.version_major != SMELT_ARTIFACT_VERSION_MAJOR) {
    return fail(SMELT_artifact,
                fmt::format("{}: artifact format {}.{}, but this runtime reads {}.x; {}", name,
                            header.version_major, header.version_minor, SMELT_ARTIFACT_VERSION_MAJOR,
                            header.version_major > SMELT_ARTIFACT_VERSION_MAJOR ? "use a newer runtime"
                                                                                : "compile the model again"));
  }
  if (header.file_size != bytes.size()) {
    return damaged(name, fmt::format("{}: the header says {} bytes, the file has {}",
                                     bytes.size() < header.file_size ? "truncated" : "too long",
                                     header.file_size, bytes.size()));
  }
  if (options.verifyChecksum) {
    uint64_t actual = XXH3_64bits(bytes.data() + SMELT_ARTIFACT_CHECKSUM_BEGIN,
                                  bytes.size() - SMELT_ARTIFACT_CHECKSUM_BEGIN);
    if (actual != header.checksum) {
      return damaged(
          name, fmt::format("damaged: checksum {:016x}, the header says {:016x}", actual, header.checksum));
    }
  }
  auto inside = [&](uint64_t offset, uint64_t size) {
    return offset >= headerSize && offset <= bytes.size() && size <= bytes.size() - offset;
  };
  if (!inside(header.manifest_offset, header.manifest_size) || header.manifest_offset % manifestAlignment ||
      header.manifest_size > maxManifestSize) {
    return damaged(name, fmt::format("damaged: the manifest is said to be at [{}, +{}) of {} bytes",
                                     header.manifest_offset, header.manifest_size, bytes.size()));
  }
  if (!inside(header.code_offset, header.code_size) || header.code_offset % SMELT_ARTIFACT_CODE_ALIGNMENT) {
    return damaged(name, fmt::format("damaged: the code is said to be at [{}, +{}) of {} bytes",
                                     header.code_offset, header.code_size, bytes.size()));
  }
  return success();
}

// The FlatBuffers verifier aligns a vector's length, four bytes, but not elements of eight.
bool shapesAligned(const artifact::Manifest &manifest) {
  for (const artifact::Weight *weight : *manifest.weights()) {
    if (reinterpret_cast<uintptr_t>(weight->shape()->Data()) % alignof(uint64_t)) {
      return false;
    }
  }
  return true;
}

} // namespace

Result<std::shared_ptr<const Artifact>> Artifact::open(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) {
    return file.takeStatus();
  }
  Result<std::shared_ptr<Artifact>> artifact = build(path, file->bytes(), {});
  if (!artifact.ok()) {
    return artifact.takeStatus();
  }
  (*artifact)->file = std::move(*file);
  return std::shared_ptr<const Artifact>(std::move(*artifact));
}

Result<std::shared_ptr<const Artifact>>
Artifact::parse(const std::string &name, std::span<const std::byte> bytes, ArtifactOptions options) {
  Result<std::shared_ptr<Artifact>> artifact = build(name, bytes, options);
  if (!artifact.ok()) {
    return artifact.takeStatus();
  }
  return std::shared_ptr<const Artifact>(std::move(*artifact));
}

Result<std::shared_ptr<Artifact>> Artifact::build(const std::string &name, std::span<const std::byte> bytes,
                                                  ArtifactOptions options) {
  if (Status status = checkHeader(name, bytes, options); !status.ok()) {
    return status;
  }
  auto artifact = std::shared_ptr<Artifact>(new Artifact);
  artifact->label = name;
  artifact->bytes = bytes;
  smelt_artifact_header header = artifact->header();
  const auto *manifest = reinterpret_cast<const uint8_t *>(bytes.data() + header.manifest_offset);
  flatbuffers::Verifier verifier(manifest, header.manifest_size, maxManifestDepth, maxManifestTables);
  if (!artifact::VerifyManifestBuffer(verifier) || !shapesAligned(*artifact::GetManifest(manifest))) {
    return damaged(name, "damaged: the manifest is not a well-formed FlatBuffer");
  }
  artifact->root = artifact::GetManifest(manifest);
  ProblemList problems = verifyManifest(*artifact->root, bytes.subspan(header.code_offset, header.code_size));
  if (!problems.empty()) {
    return fail(SMELT_artifact,
                fmt::format("{}: the manifest written by '{}' is inconsistent ({} problem{}):{}", name,
                            printable(artifact->root->producer()->string_view()), problems.size(),
                            problems.size() == 1 ? "" : "s", problems.text()));
  }
  return artifact;
}

smelt_artifact_header Artifact::header() const {
  smelt_artifact_header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

std::span<const std::byte> Artifact::code(uint32_t variant) const {
  const artifact::CodeVariant *entry = root->variants()->Get(variant);
  return bytes.subspan(header().code_offset + entry->offset(), entry->size());
}

std::span<const std::byte> Artifact::image(const artifact::DeviceImage &image) const {
  return bytes.subspan(header().code_offset + image.offset(), image.size());
}

uint64_t Artifact::launchesPerStep() const {
  uint64_t launches = 0;
  for (const artifact::Block *block : *root->blocks()) {
    launches += uint64_t(block->calls()->size()) * std::max<uint32_t>(block->layers(), 1) * block->visits();
  }
  return launches;
}

} // namespace smelt::runtime
