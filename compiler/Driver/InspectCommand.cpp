// smeltc inspect: what is in a spec, an artifact or a weights file, and what it needs.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/Inspect.h"
#include "compiler/Driver/UserError.h"
#include "runtime/src/MappedFile.h"
#include "smelt/artifact.h"

#include <CLI/CLI.hpp>
#include <cstring>
#include <fmt/format.h>

namespace smelt::driver {

namespace {

class InspectCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("FILE", path, "A spec, an artifact, a safetensors file or a safetensors index")
        ->type_name("FILE")
        ->required();
    app.add_flag("--json", json, "Print one JSON object");
  }

  smelt_status run() override {
    switch (detectKind(path)) {
    case FileKind::spec:
      printResult(inspectSpec(path, json));
      break;
    case FileKind::artifact:
      printResult(inspectArtifact(path, json));
      break;
    case FileKind::safetensors:
    case FileKind::safetensors_index:
      printResult(inspectSafetensors(path, json));
      break;
    }
    return SMELT_ok;
  }

private:
  std::string path;
  bool json = false;
};

bool startsLikeSafetensors(std::string_view bytes) {
  // Eight bytes of header length, then JSON.
  uint64_t length = 0;
  if (bytes.size() <= sizeof(length)) {
    return false;
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  return bytes[sizeof(length)] == '{' && length <= 100'000'000;
}

bool isText(std::string_view bytes) { return bytes.substr(0, 4096).find('\0') == std::string_view::npos; }

} // namespace

FileKind detectKind(const std::string &path) {
  runtime::Result<runtime::MappedFile> file = runtime::MappedFile::open(path);
  if (!file.ok()) {
    throw UserError(file.status().code, file.status().message);
  }
  std::string_view bytes(reinterpret_cast<const char *>(file->bytes().data()), file->bytes().size());
  if (bytes.starts_with(SMELT_ARTIFACT_MAGIC)) {
    return FileKind::artifact;
  }
  if (startsLikeSafetensors(bytes)) {
    return FileKind::safetensors;
  }
  size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && bytes[first] == '{') {
    return FileKind::safetensors_index;
  }
  if (!isText(bytes)) {
    throw UserError(
        SMELT_io,
        fmt::format("{}: is neither a spec (TOML text) nor an artifact nor a safetensors file", path));
  }
  return FileKind::spec;
}

std::unique_ptr<Command> makeInspectCommand() { return std::make_unique<InspectCommand>(); }

} // namespace smelt::driver
