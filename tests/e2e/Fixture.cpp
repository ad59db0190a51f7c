#include "tests/e2e/Fixture.h"

#include "compiler/Spec/SpecReader.h"
#include "compiler/Weights/InitWeights.h"
#include "compiler/Weights/QuantizeWeights.h"
#include "tests/support/TempFolder.h"

#include <random>
#include <set>
#include <stdexcept>

namespace smelt::tests {
namespace {

const TempFolder &folder() {
  static const TempFolder instance;
  return instance;
}

std::string nextFile(const std::string &stem) {
  static int count = 0;
  return folder().file(stem + "-" + std::to_string(count++));
}

} // namespace

std::string goldenFile(const std::string &name, const std::string &extension) {
  return SMELT_GOLDEN_FOLDER "/" + name + extension;
}

spec::ModelSpec goldenSpec(const std::string &name) {
  const spec::SpecResult result = spec::readSpecFile(goldenFile(name, ".toml"));
  if (!result) {
    throw std::runtime_error(result.diagnostics.text());
  }
  return *result.spec;
}

std::string goldenArtifact(const std::string &name) {
  static std::set<std::string> compiled;
  const std::string path = folder().file(name + ".smelt");
  if (compiled.insert(name).second) {
    compileSpec(goldenSpec(name), {}, path);
  }
  return path;
}

RuntimeModel goldenModel(const std::string &name) {
  return {goldenArtifact(name), {goldenFile(name, ".safetensors")}};
}

spec::ModelSpec raggedSpec() {
  spec::ModelSpec spec;
  spec.name = "ragged";
  spec.vocab_size = 101;
  spec.hidden_size = 231;
  spec.attention = {11, 1, 42, 10000.0, spec::QkNorm::none, true};
  spec.moe = spec::Moe{13, 5, 79, spec::RouterKind::softmax, true, 1, 33};
  spec.mlp = spec::Mlp{77};
  for (const int64_t visits : {1, 2, 1}) {
    spec::Segment segment;
    segment.layers = 1;
    segment.visits = visits;
    segment.residual_scale = 1.0 / static_cast<double>(visits);
    segment.attention = spec.attention;
    spec.segments.push_back(segment);
  }
  spec.segments.back().ffn = spec::FfnKind::dense;
  return spec;
}

std::string randomWeights(const spec::ModelSpec &spec, Precision precision, uint64_t seed) {
  weights::InitOptions options;
  options.path = nextFile(spec.name) + ".safetensors";
  options.seed = seed;
  options.dtype = precision == Precision::f32 ? weights::WeightDType::f32 : weights::WeightDType::bf16;
  const auto written = weights::initWeights(spec, options);
  if (!written.ok()) {
    throw std::runtime_error(written.status().message);
  }
  return precision == Precision::i8 ? quantizedWeights(options.path) : options.path;
}

std::string quantizedWeights(const std::string &weights) {
  weights::QuantizeOptions options;
  options.inputs = {weights};
  options.output = nextFile("quantized") + ".safetensors";
  const auto written = weights::quantizeWeights(options);
  if (!written.ok()) {
    throw std::runtime_error(written.status().message);
  }
  return options.output;
}

Built build(const spec::ModelSpec &spec, const CompileSettings &settings, uint64_t weights_seed) {
  const std::string artifact = nextFile(spec.name) + ".smelt";
  compileSpec(spec, settings, artifact);
  return {artifact, randomWeights(spec, settings.precision, weights_seed)};
}

std::vector<int32_t> randomTokens(int64_t vocab, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t &token : tokens) {
    token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
  }
  return tokens;
}

} // namespace smelt::tests
