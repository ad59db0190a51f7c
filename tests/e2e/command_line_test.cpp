// What a user sees when something is wrong: exit codes from the table of status.h, a message that says what
// and where, and no file left behind.
#include "smelt/status.h"
#include "tests/e2e/Fixture.h"
#include "tests/support/Process.h"
#include "tests/support/Safetensors.h"
#include "tests/support/TempFolder.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

using namespace smelt::tests;

namespace {

using Arguments = std::vector<std::string>;

Arguments operator+(Arguments left, const Arguments &right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

ProcessResult smeltc(const Arguments &arguments) { return runProcess(Arguments{SMELTC_PROGRAM} + arguments); }

// Both programs that run an artifact.
std::vector<Arguments> runners() { return {{SMELTC_PROGRAM, "run"}, {SMELT_RUN_PROGRAM}}; }

// One failed run: nothing on stdout that could be taken for a result, an explanation on stderr.
void requireFailure(const ProcessResult &result, smelt_status status) {
  CAPTURE(result.out, result.err);
  REQUIRE(result.signal == 0);
  REQUIRE(result.exit_code == status);
  REQUIRE(!result.err.empty());
}

size_t filesIn(const TempFolder &folder) {
  const std::filesystem::directory_iterator entries(folder.path());
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// The program under a limit on the size of files, in blocks of 512 bytes: writing beyond it fails, as on a
// full disk.
ProcessResult withFileLimit(int blocks, const Arguments &command) {
  const std::string script = "ulimit -f " + std::to_string(blocks) + "; exec \"$0\" \"$@\"";
  return runProcess(Arguments{"/bin/sh", "-c", script} + command);
}

const std::string kCase = "qwen3-moe";

} // namespace

TEST_CASE("running on input that does not fit") {
  const TempFolder folder;
  const std::string artifact = goldenArtifact(kCase), weights = goldenFile(kCase, ".safetensors");
  const std::string broken_json = folder.file("tokens.json");
  writeBytes(broken_json, "[1, 2,");
  const std::string words_json = folder.file("words.json");
  writeBytes(words_json, R"(["a"])");
  const std::string not_weights = folder.file("not.safetensors");
  writeBytes(not_weights, "not weights at all");

  struct Wrong {
    const char *what;
    Arguments arguments;
    smelt_status status;
    std::string mentioned;
  };
  const std::vector<Wrong> wrongs = {
      {"token id = vocab", {artifact, "--weights", weights, "--tokens", "1,48"}, SMELT_input, "48"},
      {"negative token", {artifact, "--weights", weights, "--tokens=1,-3"}, SMELT_input, "-3"},
      {"no tokens", {artifact, "--weights", weights}, SMELT_usage, "--tokens"},
      {"tokens that are no numbers", {artifact, "--weights", weights, "--tokens", "1,x"}, SMELT_input, "x"},
      {"cut JSON", {artifact, "--weights", weights, "--tokens-file", broken_json}, SMELT_input, broken_json},
      {"words in JSON",
       {artifact, "--weights", weights, "--tokens-file", words_json},
       SMELT_input,
       words_json},
      {"no tokens file",
       {artifact, "--weights", weights, "--tokens-file", folder.file("no.json")},
       SMELT_io,
       "no.json"},
      {"no artifact", {folder.file("no.smelt"), "--weights", weights, "--tokens", "1"}, SMELT_io, "no.smelt"},
      {"weights as artifact", {weights, "--weights", weights, "--tokens", "1"}, SMELT_artifact, weights},
      {"no weights file", {artifact, "--weights", folder.file("no.st"), "--tokens", "1"}, SMELT_io, "no.st"},
      {"bad weights", {artifact, "--weights", not_weights, "--tokens", "1"}, SMELT_weights, not_weights},
      {"weights of another model",
       {artifact, "--weights", goldenFile("olmoe", ".safetensors"), "--tokens", "1"},
       SMELT_weights,
       "model.layers."},
      {"unknown option",
       {artifact, "--weights", weights, "--tokens", "1", "--frobnicate"},
       SMELT_usage,
       "--frobnicate"},
      {"negative temperature",
       {artifact, "--weights", weights, "--tokens", "1", "--temperature=-1"},
       SMELT_input,
       "temperature"},
      {"unwritable logits",
       {artifact, "--weights", weights, "--tokens", "1", "--logits", folder.file("no/logits.npy")},
       SMELT_io,
       "no/logits.npy"},
  };
  for (const Arguments &runner : runners()) {
    for (const Wrong &wrong : wrongs) {
      CAPTURE(runner.back(), wrong.what);
      const ProcessResult result = runProcess(runner + wrong.arguments);
      requireFailure(result, wrong.status);
      CHECK_THAT(result.err, Catch::Contains(wrong.mentioned));
    }
  }
  CHECK(filesIn(folder) == 3);
}

TEST_CASE("damaged files on the command line") {
  const TempFolder folder;
  const std::string artifact = goldenArtifact(kCase), weights = goldenFile(kCase, ".safetensors");
  const std::string cut_artifact = folder.file("cut.smelt"), cut_weights = folder.file("cut.safetensors");
  const std::string artifact_bytes = readBytes(artifact), weight_bytes = readBytes(weights);
  writeBytes(cut_artifact, artifact_bytes.substr(0, artifact_bytes.size() / 2));
  writeBytes(cut_weights, weight_bytes.substr(0, weight_bytes.size() / 2));
  for (const Arguments &runner : runners()) {
    CAPTURE(runner.back());
    requireFailure(runProcess(runner + Arguments{cut_artifact, "--weights", weights, "--tokens", "1"}),
                   SMELT_artifact);
    requireFailure(runProcess(runner + Arguments{artifact, "--weights", cut_weights, "--tokens", "1"}),
                   SMELT_weights);
  }
  requireFailure(smeltc({"inspect", cut_artifact}), SMELT_artifact);
  requireFailure(smeltc({"inspect", cut_weights}), SMELT_weights);
}

TEST_CASE("a wrong spec is reported with its place, all problems at once") {
  const TempFolder folder;
  const std::string path = folder.file("wrong.toml");
  std::string text = readBytes(goldenFile(kCase, ".toml"));
  text.replace(text.find("vocab_size = 48"), 15, "vocab_size = -4");
  text.replace(text.find("top_k = 2"), 9, "topk_k = 2");
  writeBytes(path, text);
  for (const Arguments &arguments :
       {Arguments{"compile", path, "-o", folder.file("out.smelt")}, Arguments{"budget", path},
        Arguments{"weights", "init", path, "--seed", "1", "-o", folder.file("out.safetensors")}}) {
    const ProcessResult result = smeltc(arguments);
    requireFailure(result, SMELT_spec);
    CHECK_THAT(result.err, Catch::Contains("wrong.toml:4:") && Catch::Contains("vocab_size"));
    CHECK_THAT(result.err, Catch::Contains("topk_k") && Catch::Contains("top_k"));
  }
  CHECK(filesIn(folder) == 1);
}

TEST_CASE("outputs that cannot be written") {
  const TempFolder folder;
  const std::string spec = goldenFile(kCase, ".toml");
  for (const std::string &path : {folder.file("no/such/out"), folder.path().string()}) {
    CAPTURE(path);
    const ProcessResult compiled = smeltc({"compile", spec, "-o", path});
    requireFailure(compiled, SMELT_io);
    CHECK_THAT(compiled.err, Catch::Contains(path));
  }
  const std::string nowhere = folder.file("no/out.safetensors");
  const ProcessResult weights = smeltc({"weights", "init", spec, "--seed", "1", "-o", nowhere});
  requireFailure(weights, SMELT_io);
  CHECK_THAT(weights.err, Catch::Contains(nowhere));
  CHECK(filesIn(folder) == 0);
}

TEST_CASE("a disk that fills up leaves nothing half-written") {
  const TempFolder folder;
  const std::string spec = goldenFile(kCase, ".toml"), weights = goldenFile(kCase, ".safetensors");
  const ProcessResult compiled =
      withFileLimit(8, {SMELTC_PROGRAM, "compile", spec, "-o", folder.file("out.smelt")});
  requireFailure(compiled, SMELT_io);
  CHECK_THAT(compiled.err, Catch::Contains("out.smelt"));
  const ProcessResult initialised = withFileLimit(
      8, {SMELTC_PROGRAM, "weights", "init", spec, "--seed", "1", "-o", folder.file("out.safetensors")});
  requireFailure(initialised, SMELT_io);
  CHECK_THAT(initialised.err, Catch::Contains("out.safetensors"));
  for (const Arguments &runner : runners()) {
    const Arguments run =
        runner + Arguments{goldenArtifact(kCase),    "--weights", weights, "--tokens", "1,2,3", "--logits",
                           folder.file("logits.npy")};
    const ProcessResult result = withFileLimit(0, run);
    requireFailure(result, SMELT_io);
    CHECK_THAT(result.err, Catch::Contains("logits.npy"));
  }
  CHECK(filesIn(folder) == 0);
}

TEST_CASE("a failed compile leaves the previous artifact as it was") {
  const TempFolder folder;
  const std::string path = folder.file("out.smelt");
  writeBytes(path, "previous");
  requireFailure(withFileLimit(8, {SMELTC_PROGRAM, "compile", goldenFile(kCase, ".toml"), "-o", path}),
                 SMELT_io);
  CHECK(readBytes(path) == "previous");
  CHECK(filesIn(folder) == 1);
}

namespace {

// Whether a process has come so far as to handle SIGINT itself; on a busy machine that takes a while.
bool handlesInterrupts(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("SigCgt:", 0) == 0) {
      return std::stoull(line.substr(7), nullptr, 16) >> (SIGINT - 1) & 1;
    }
  }
  return false;
}

// Runs a command and sends it SIGINT once, as soon as it handles that and `ready` says so.
ProcessResult interruptedWhen(const Arguments &command,
                              const std::function<bool(const ProcessResult &)> &ready) {
  bool sent = false;
  return runProcess(command, [&](pid_t process, const ProcessResult &so_far) {
    if (!sent && handlesInterrupts(process) && ready(so_far)) {
      kill(process, SIGINT);
      sent = true;
    }
  });
}

} // namespace

TEST_CASE("SIGINT stops each command and leaves nothing half-written") {
  const TempFolder folder;
  const std::string cell = SMELT_SPECS_FOLDER "/smelt/smelt-200m-s97.toml";
  const ProcessResult weights = interruptedWhen(
      {SMELTC_PROGRAM, "weights", "init", cell, "--seed", "1", "-o", folder.file("out.safetensors")},
      [&](const ProcessResult &) { return filesIn(folder) > 0; });
  requireFailure(weights, SMELT_interrupted);
  CHECK(filesIn(folder) == 0);

  const ProcessResult compiled =
      interruptedWhen({SMELTC_PROGRAM, "compile", cell, "-o", folder.file("out.smelt")},
                      [](const ProcessResult &) { return true; });
  requireFailure(compiled, SMELT_interrupted);
  CHECK(filesIn(folder) == 0);

  for (const Arguments &runner : runners()) {
    CAPTURE(runner.back());
    const Arguments run =
        runner +
        Arguments{goldenArtifact(kCase), "--weights", goldenFile(kCase, ".safetensors"), "--tokens", "1,2,3",
                  "--max-new-tokens",    "100000"};
    const ProcessResult result =
        interruptedWhen(run, [](const ProcessResult &so_far) { return !so_far.out.empty(); });
    CAPTURE(result.err);
    CHECK(result.exit_code == SMELT_interrupted);
  }
}

TEST_CASE("the same spec gives the same bytes, whatever the number of threads") {
  const TempFolder folder;
  const std::string first = folder.file("first.smelt"), second = folder.file("second.smelt");
  for (const auto &[path, threads] : {std::pair(first, "1"), std::pair(second, "2")}) {
    CHECK(smeltc({"compile", goldenFile(kCase, ".toml"), "-o", path, "--threads", threads}).exit_code == 0);
  }
  CHECK(readBytes(first) == readBytes(second));
}
