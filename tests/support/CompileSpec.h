// From a spec to an artifact inside the test process, for all code variants.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <string>

namespace smelt::tests {

enum class Precision { f32, bf16 }; // of the weights

struct CompileSettings {
  Precision precision = Precision::f32;
  bool unroll_visits = false; // run smelt-unroll-visits first
};

// Writes the artifact of a valid spec to `path`. Throws std::runtime_error on failure.
void compileSpec(const spec::ModelSpec &spec, const CompileSettings &settings, const std::string &path);

} // namespace smelt::tests
