#include "compiler/Codegen/CUDA/Ptxas.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace smelt::codegen::cuda {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

std::string findPtxas() {
  llvm::SmallVector<std::string> folders;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char *root = std::getenv(variable); root && *root) {
      llvm::SmallString<128> folder(root);
      path::append(folder, "bin");
      folders.push_back(folder.str().str());
    }
  }
  auto in = [](llvm::ArrayRef<llvm::StringRef> paths) {
    auto found = llvm::sys::findProgramByName("ptxas", paths);
    return found ? *found : std::string();
  };
  for (const std::string &folder : folders) {
    if (std::string found = in({folder}); !found.empty()) {
      return found;
    }
  }
  auto onPath = llvm::sys::findProgramByName("ptxas");
  return onPath ? *onPath : in({"/usr/local/cuda/bin"});
}

namespace {

// A folder of its own under the system's temporary folder, removed with all it holds.
class WorkFolder {
public:
  WorkFolder() { failed = static_cast<bool>(fs::createUniqueDirectory("smelt-ptxas", folder)); }
  ~WorkFolder() {
    if (!failed) {
      fs::remove_directories(folder);
    }
  }
  bool ok() const { return !failed; }
  std::string file(const char *name) const {
    llvm::SmallString<128> result(folder);
    path::append(result, name);
    return result.str().str();
  }

private:
  llvm::SmallString<128> folder;
  bool failed;
};

bool writeFile(const std::string &name, const std::string &text) {
  std::error_code error;
  llvm::raw_fd_ostream stream(name, error);
  stream << text;
  stream.close();
  return !error && !stream.has_error();
}

std::string readFile(const std::string &name) {
  auto buffer = llvm::MemoryBuffer::getFile(name, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  return buffer ? (*buffer)->getBuffer().str() : std::string();
}

// The number right before `words` in `line`, or -1.
int64_t numberBefore(llvm::StringRef line, llvm::StringRef words) {
  size_t at = line.find(words);
  if (at == llvm::StringRef::npos) {
    return -1;
  }
  llvm::StringRef digits = line.take_front(at).rtrim();
  size_t start = digits.find_last_not_of("0123456789");
  int64_t value = -1;
  return digits.substr(start == llvm::StringRef::npos ? 0 : start + 1).getAsInteger(10, value) ? -1 : value;
}

} // namespace

void parsePtxasLog(const std::string &log, PtxasResult &result) {
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(log).split(lines, '\n');
  FunctionStats *current = nullptr;
  for (llvm::StringRef line : lines) {
    // C7510 and its neighbours tell of serialised wgmma; ptxas files them under "info".
    if (line.contains("warning") || line.contains("(C75")) {
      result.warnings.push_back(line.trim().str());
    }
    if (line.contains("Compiling entry function")) {
      auto name = line.split('\'').second.split('\'').first;
      result.stats.push_back({name.str()});
      current = &result.stats.back();
    } else if (current && line.contains("bytes spill stores")) {
      current->spill_store_bytes = numberBefore(line, "bytes spill stores");
      current->spill_load_bytes = numberBefore(line, "bytes spill loads");
    } else if (current && line.contains("Used ")) {
      current->registers = numberBefore(line, "registers");
      current->static_shared_bytes = std::max<int64_t>(0, numberBefore(line, "bytes smem"));
    }
  }
}

PtxasResult assemble(const std::string &ptxas, const std::string &ptx, const Target &target) {
  PtxasResult result;
  WorkFolder folder;
  if (!folder.ok()) {
    result.message = "no temporary folder can be made";
    return result;
  }
  std::string input = folder.file("kernels.ptx"), output = folder.file("kernels.cubin");
  std::string log = folder.file("log");
  if (!writeFile(input, ptx)) {
    result.message = "cannot write " + input;
    return result;
  }
  std::string architecture = "-arch=" + target.chip;
  llvm::StringRef arguments[] = {ptxas, "-v", "-O3", architecture, input, "-o", output};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(), log, log};
  std::string launchError;
  int code = llvm::sys::ExecuteAndWait(ptxas, arguments, /*Env=*/std::nullopt, redirects,
                                       /*SecondsToWait=*/0, /*MemoryLimit=*/0, &launchError);
  std::string text = readFile(log);
  if (code != 0) {
    result.message = launchError.empty() ? llvm::StringRef(text).trim().str() : launchError;
    llvm::StringRef message(result.message);
    if (message.contains("is not defined for option 'gpu-name'") ||
        message.contains("Unsupported .version")) {
      result.outcome = PtxasOutcome::unsupported;
    }
    return result;
  }
  parsePtxasLog(text, result);
  std::string bytes = readFile(output);
  result.cubin.assign(bytes.begin(), bytes.end());
  result.outcome = PtxasOutcome::assembled;
  return result;
}

} // namespace smelt::codegen::cuda
