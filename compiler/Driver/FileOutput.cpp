#include "compiler/Driver/FileOutput.h"

#include "compiler/Driver/UserError.h"
#include "runtime/src/AtomicFile.h"

namespace smelt::driver {

namespace {

void check(const runtime::Status &status) {
  if (!status.ok()) {
    throw UserError(status.code, status.message);
  }
}

runtime::AtomicFile create(const std::string &path) {
  runtime::Result<runtime::AtomicFile> file = runtime::AtomicFile::create(path);
  if (!file.ok()) {
    check(file.status());
  }
  return std::move(*file);
}

} // namespace

void checkWritable(const std::string &path) { create(path); }

void writeFile(const std::string &path, std::span<const std::byte> bytes) {
  runtime::AtomicFile file = create(path);
  check(file.write(bytes));
  check(file.commit());
}

void writeFile(const std::string &path, std::string_view text) {
  writeFile(path, std::as_bytes(std::span(text)));
}

} // namespace smelt::driver
