#include "compiler/Import/SafeTensorsFile.h"

#include "compiler/Import/SafeTensorsHeader.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace smelt::checkpoint {

uint64_t elementSize(const std::string &dtype) {
  static const std::map<std::string, uint64_t> sizes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

namespace {

// The bytes of a file, unmapped with the last reference.
struct Mapping {
  std::shared_ptr<const std::byte> data;
  uint64_t size = 0;
};

ReadError ioError(const std::string &path) {
  return {SMELT_io, fmt::format("{}: cannot be read: {}", path, std::strerror(errno))};
}

ReadResult<Mapping> mapFile(const std::string &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return ioError(path);
  }
  struct stat info;
  ReadResult<Mapping> result = ReadError();
  if (fstat(descriptor, &info) != 0) {
    result = ioError(path);
  } else if (!S_ISREG(info.st_mode)) {
    result = ReadError{SMELT_io, fmt::format("{}: is not a regular file", path)};
  } else if (info.st_size < 8) {
    result = ReadError{SMELT_weights,
                       fmt::format("{}: is not a safetensors file: it has {} bytes, the header alone takes "
                                   "8 and more",
                                   path, info.st_size)};
  } else {
    uint64_t size = static_cast<uint64_t>(info.st_size);
    void *address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      result = ioError(path);
    } else {
      auto unmap = [size](const std::byte *data) { munmap(const_cast<std::byte *>(data), size); };
      result = Mapping{{static_cast<const std::byte *>(address), unmap}, size};
    }
  }
  ::close(descriptor);
  return result;
}

} // namespace

ReadResult<SafeTensorsFile> SafeTensorsFile::open(const std::string &path) {
  ReadResult<Mapping> mapped = mapFile(path);
  if (auto *error = std::get_if<ReadError>(&mapped)) {
    return *error;
  }
  SafeTensorsFile file;
  file.file_path = path;
  file.mapping = std::get<Mapping>(mapped).data;
  file.mapping_size = std::get<Mapping>(mapped).size;

  uint64_t header_size = 0;
  for (int byte = 7; byte >= 0; --byte) {
    header_size = header_size << 8 | static_cast<uint64_t>(file.mapping.get()[byte]);
  }
  if (header_size > file.mapping_size - 8) {
    return ReadError{
        SMELT_weights,
        fmt::format(
            "{}: is truncated or not a safetensors file: its header takes {} bytes, but only {} follow", path,
            header_size, file.mapping_size - 8)};
  }
  std::string_view json(reinterpret_cast<const char *>(file.mapping.get()) + 8, header_size);
  const std::byte *data = file.mapping.get() + 8 + header_size;
  std::vector<std::string> problems;
  SafeTensorsHeader header = parseHeader(json, file.mapping_size - 8 - header_size, problems);
  if (!problems.empty()) {
    return ReadError{SMELT_weights, fmt::format("{}: {}", path, fmt::join(problems, "\n" + path + ": "))};
  }
  file.metadata_entries = std::move(header.metadata);
  for (auto &[name, entry] : header.tensors) {
    file.views[name] = {
        std::move(entry.dtype), std::move(entry.shape), {data + entry.begin, data + entry.end}};
  }
  return file;
}

} // namespace smelt::checkpoint
