// What `smeltc inspect` says about each kind of file. Every function returns the text or the JSON to print
// and throws UserError when the file is not sound.
#pragma once

#include <string>

namespace smelt::driver {

enum class FileKind { spec, artifact, safetensors, safetensors_index };

// Told by what the file holds, not by its name. Throws UserError(SMELT_io) when it cannot be read or is none
// of them.
FileKind detectKind(const std::string &path);

std::string inspectSpec(const std::string &path, bool json);
std::string inspectArtifact(const std::string &path, bool json);
// One file, or the shards an index names.
std::string inspectSafetensors(const std::string &path, bool json);

} // namespace smelt::driver
