// What `smeltc inspect` says about each kind of file. Every function returns the text or the JSON to print
// and throws UserError when the file is not sound.
#pragma once

#include <cstdint>
#include <string>

namespace smelt::driver {

enum class FileKind { spec, artifact, safetensors, safetensors_index, weights_cache };

// Told by what the file holds, not by its name. Throws UserError(SMELT_io) when it cannot be read or is none
// of them.
FileKind detectKind(const std::string &path);

std::string inspectSpec(const std::string &path, bool json);
// The session whose memory is predicted.
struct InspectedSession {
  uint32_t sequences = 1, positions = 2048, step_tokens = 512,
           threads = 0; // threads 0: as many as run would use
};
std::string inspectArtifact(const std::string &path, bool json, const InspectedSession &session);
// One file, or the shards an index names.
std::string inspectSafetensors(const std::string &path, bool json);
// `check`: read all of it and compare the checksums.
std::string inspectWeightCache(const std::string &path, bool json, bool check);

} // namespace smelt::driver
