// A compiled artifact, opened and verified: header, manifest and code images. See docs/artifact.md.
#pragma once

#include "runtime/src/MappedFile.h"
#include "runtime/src/Status.h"
#include "smelt/artifact.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace smelt::artifact {
struct DeviceImage;
struct Manifest;
} // namespace smelt::artifact

namespace smelt::runtime {

struct ArtifactOptions {
  bool verifyChecksum = true; // false lets a fuzzer reach the checks behind it
};

class Artifact {
public:
  // SMELT_io when the file cannot be read, SMELT_artifact when anything in it is wrong.
  static Result<std::shared_ptr<const Artifact>> open(const std::string &path);
  // The same from memory; `bytes` must be 64-byte aligned and outlive the result. `name` appears in messages.
  static Result<std::shared_ptr<const Artifact>>
  parse(const std::string &name, std::span<const std::byte> bytes, ArtifactOptions options = {});

  const std::string &name() const { return label; }
  smelt_artifact_header header() const;
  const artifact::Manifest &manifest() const { return *root; }
  // The image of a code variant.
  std::span<const std::byte> code(uint32_t variant) const;
  // The image of a device.
  std::span<const std::byte> image(const artifact::DeviceImage &image) const;
  uint64_t launchesPerStep() const;

private:
  Artifact() = default;
  static Result<std::shared_ptr<Artifact>> build(const std::string &name, std::span<const std::byte> bytes,
                                                 ArtifactOptions options);

  std::string label;
  std::optional<MappedFile> file;
  std::span<const std::byte> bytes;
  const artifact::Manifest *root = nullptr;
};

} // namespace smelt::runtime
