// The golden logits of this folder, which PyTorch made, against compiled code on every code variant of this
// machine and against the interpreter. README.md describes the cases.
#include "compiler/Spec/SpecReader.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/Npy.h"
#include "tests/support/RuntimeModel.h"
#include "tests/support/Safetensors.h"
#include "tests/support/TempFolder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace smelt::tests;

namespace {

constexpr double kTolerance = 1e-5; // relative L2

struct Golden {
  std::string name, weights;
  smelt::spec::ModelSpec spec;
  std::vector<int32_t> tokens;
  std::vector<double> logits;
};

std::vector<std::string> caseNames() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(SMELT_GOLDEN_FOLDER)) {
    if (entry.path().extension() == ".toml") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Golden load(const std::string &name) {
  const std::string stem = SMELT_GOLDEN_FOLDER "/" + name;
  const smelt::spec::SpecResult read = smelt::spec::readSpecFile(stem + ".toml");
  INFO(read.diagnostics.text());
  REQUIRE(read);
  const auto tokens = nlohmann::json::parse(readBytes(stem + ".tokens.json")).get<std::vector<int32_t>>();
  const Matrix logits = readNpy(stem + ".logits.npy");
  REQUIRE(logits.rows == tokens.size());
  REQUIRE(logits.columns == static_cast<size_t>(read.spec->vocab_size));
  return {name, stem + ".safetensors", *read.spec, tokens, logits.values};
}

} // namespace

TEST_CASE("there are golden cases") { CHECK(caseNames().size() >= 10); }

TEST_CASE("the interpreter agrees with PyTorch") {
  for (const std::string &name : caseNames()) {
    CAPTURE(name);
    const Golden golden = load(name);
    const InterpretedModel model(golden.spec, golden.weights);
    CHECK(relativeL2(model.run(golden.tokens).logits, golden.logits) <= kTolerance);
  }
}

TEST_CASE("compiled code agrees with PyTorch") {
  const TempFolder folder;
  for (const std::string &name : caseNames()) {
    const Golden golden = load(name);
    const std::string artifact = folder.file(name + ".smelt");
    compileSpec(golden.spec, {}, artifact);
    const RuntimeModel model(artifact, {golden.weights});
    for (const std::string &isa : model.supportedIsas()) {
      CAPTURE(name, isa);
      SessionSettings settings;
      settings.isa = isa;
      RuntimeSession session(model, settings);
      CHECK(relativeL2(session.append(golden.tokens).values, golden.logits) <= kTolerance);
    }
  }
}
