// From a spec to an artifact inside the test process, for all code variants.
#pragma once

#include "compiler/Spec/ModelSpec.h"
#include "dialect/IR/SmeltProgramOps.h"

#include <string>
#include <vector>

namespace smelt::tests {

enum class Precision { f32, bf16, i8 }; // of the weights

struct CompileSettings {
  Precision precision = Precision::f32;
  bool unroll_visits = false; // run smelt-unroll-visits first
  // GPU targets to carry PTX for besides the code for CPUs, e.g. "cuda:sm_80"; with them the precision is
  // bf16.
  std::vector<std::string> devices = {};
  Precision kv_cache = Precision::f32; // of keys and values on CPUs; the interpreter rounds to it, too
};

mlir::smelt::DType dtypeOf(Precision precision);

// Writes the artifact of a valid spec to `path`. Throws std::runtime_error on failure.
void compileSpec(const spec::ModelSpec &spec, const CompileSettings &settings, const std::string &path);

} // namespace smelt::tests
