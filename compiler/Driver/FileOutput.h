// Writing the files a command was asked for: whole or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace smelt::driver {

// Throws UserError(SMELT_io) when the file could not be written now; leaves what is there alone.
void checkWritable(const std::string &path);

// Throw UserError(SMELT_io); the old file, if any, is then unchanged.
void writeFile(const std::string &path, std::span<const std::byte> bytes);
void writeFile(const std::string &path, std::string_view text);

} // namespace smelt::driver
