// Compiled models that several tests of this folder use. Compiled once a process, deleted at its end.
#pragma once

#include "compiler/Spec/ModelSpec.h"
#include "tests/support/CompileSpec.h"
#include "tests/support/RuntimeModel.h"

#include <string>

namespace smelt::tests {

// A file of tests/golden, e.g. goldenFile("olmoe", ".toml").
std::string goldenFile(const std::string &name, const std::string &extension);
spec::ModelSpec goldenSpec(const std::string &name);
// The artifact of a golden case, f32.
std::string goldenArtifact(const std::string &name);
RuntimeModel goldenModel(const std::string &name);

// The geometry of the largest published looped cell at an eighth of its width: no size is a multiple of
// anything a machine likes.
spec::ModelSpec raggedSpec();

// A file of random weights, as `smeltc weights init` makes it; of i8, what `weights quantize` makes of the
// bf16 ones of the same seed.
std::string randomWeights(const spec::ModelSpec &spec, Precision precision, uint64_t seed);

// The file that `smeltc weights quantize` makes of another.
std::string quantizedWeights(const std::string &weights);

// A spec with random weights of a seed, compiled.
struct Built {
  std::string artifact, weights;
  RuntimeModel model() const { return {artifact, {weights}}; }
};
Built build(const spec::ModelSpec &spec, const CompileSettings &settings = {}, uint64_t weights_seed = 1);

// Token ids below vocab, the same for the same seed.
std::vector<int32_t> randomTokens(int64_t vocab, size_t count, uint64_t seed);

} // namespace smelt::tests
