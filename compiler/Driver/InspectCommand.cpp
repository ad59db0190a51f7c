// smeltc inspect: what is in a spec, an artifact or a weights file, and what it needs.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/Inspect.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/UserError.h"
#include "runtime/src/MappedFile.h"
#include "runtime/src/WeightCache.h"
#include "smelt/artifact.h"

#include <CLI/CLI.hpp>
#include <cstring>
#include <fmt/format.h>

namespace smelt::driver {

namespace {

class InspectCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("FILE", path, "A spec, an artifact, a safetensors file or index, or a weights cache")
        ->type_name("FILE")
        ->required();
    app.add_flag("--json", json, "Print one JSON object");
    auto number = [&](const char *name, uint32_t &value, const char *help) {
      session_options.push_back(
          app.add_option(name, value, help)->check(wholeNumber(1, 1 << 24))->type_name("N"));
    };
    number("--sequences", session.sequences, "Memory of an artifact: for this many sequences (default 1)");
    number("--positions", session.positions, "of this many positions each (default 2048)");
    number("--chunk", session.step_tokens, "in steps of at most this many tokens (default 512)");
    number("--threads", session.threads, "on this many threads (default: the CPUs this process may use)");
    app.add_flag("--check", check, "Of a weights cache: read all of it and compare its checksums");
  }

  smelt_status run() override {
    FileKind kind = detectKind(path);
    if (check && kind != FileKind::weights_cache) {
      throw UserError(SMELT_usage,
                      fmt::format("--check is for weights caches, {} is none; artifacts are always "
                                  "checked, safetensors files hold no checksums",
                                  path));
    }
    for (const CLI::Option *option : session_options) {
      if (option->count() && kind != FileKind::artifact) {
        throw UserError(SMELT_usage,
                        fmt::format("{} is for artifacts, {} is none", option->get_name(), path));
      }
    }
    switch (kind) {
    case FileKind::spec:
      printResult(inspectSpec(path, json));
      break;
    case FileKind::artifact:
      printResult(inspectArtifact(path, json, session));
      break;
    case FileKind::safetensors:
    case FileKind::safetensors_index:
      printResult(inspectSafetensors(path, json));
      break;
    case FileKind::weights_cache:
      printResult(inspectWeightCache(path, json, check));
      break;
    }
    return SMELT_ok;
  }

private:
  std::string path;
  bool json = false, check = false;
  InspectedSession session;
  std::vector<CLI::Option *> session_options;
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
  if (bytes.starts_with(runtime::weightCacheMagic)) {
    return FileKind::weights_cache;
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
        fmt::format(
            "{}: is neither a spec (TOML text) nor an artifact, a safetensors file or a weights cache",
            path));
  }
  return FileKind::spec;
}

std::unique_ptr<Command> makeInspectCommand() { return std::make_unique<InspectCommand>(); }

} // namespace smelt::driver
