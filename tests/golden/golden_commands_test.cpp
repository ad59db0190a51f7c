// The golden logits again, by the commands a user types: smeltc compile, then smeltc run, smelt-run and
// smelt-interpret.
#include "tests/support/Compare.h"
#include "tests/support/Npy.h"
#include "tests/support/Process.h"
#include "tests/support/Safetensors.h"
#include "tests/support/TempFolder.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace smelt::tests;

namespace {

void requireSuccess(const std::vector<std::string> &command) {
  const ProcessResult result = runProcess(command);
  CAPTURE(command, result.out, result.err);
  REQUIRE(result.exit_code == 0);
}

void checkLogits(const std::string &path, const Matrix &golden) {
  const Matrix logits = readNpy(path);
  REQUIRE(logits.rows == golden.rows);
  REQUIRE(logits.columns == golden.columns);
  CHECK(relativeL2(logits.values, golden.values) <= 1e-5);
}

} // namespace

TEST_CASE("the commands reproduce PyTorch's logits") {
  for (const std::string name : {"qwen3-moe", "olmoe-looped-layer-order", "glm4-moe-looped"}) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string stem = SMELT_GOLDEN_FOLDER "/" + name;
    const std::string spec = stem + ".toml", weights = stem + ".safetensors", tokens = stem + ".tokens.json";
    const Matrix golden = readNpy(stem + ".logits.npy");
    const std::string artifact = folder.file("model.smelt"), module = folder.file("model.mlir");
    const std::string logits = folder.file("logits.npy");

    requireSuccess({SMELTC_PROGRAM, "compile", spec, "-o", artifact, "--weights-dtype", "f32"});
    requireSuccess(
        {SMELTC_PROGRAM, "run", artifact, "--weights", weights, "--tokens-file", tokens, "--logits", logits});
    checkLogits(logits, golden);
    requireSuccess(
        {SMELT_RUN_PROGRAM, artifact, "--weights", weights, "--tokens-file", tokens, "--logits", logits});
    checkLogits(logits, golden);

    requireSuccess(
        {SMELTC_PROGRAM, "compile", spec, "--weights-dtype", "f32", "--emit", "smelt", "-o", module});
    std::string list;
    for (const int token : nlohmann::json::parse(readBytes(tokens))) {
      list += (list.empty() ? "" : ",") + std::to_string(token);
    }
    requireSuccess(
        {SMELT_INTERPRET_PROGRAM, module, "--weights=" + weights, "--tokens=" + list, "--logits=" + logits});
    checkLogits(logits, golden);
  }
}
