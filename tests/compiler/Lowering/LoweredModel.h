// A spec lowered up to a phase, for the tests of this folder.
#pragma once

#include "compiler/Spec/ModelSpec.h"
#include "dialect/IR/SmeltOps.h"
#include "dialect/IR/SmeltProgramOps.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace smelt::tests {

struct LoweringSettings {
  std::string last_phase = ""; // of compiler/Lowering/Pipeline.h; all when empty, none when "build"
  bool unroll_visits = false;
  mlir::smelt::DType weights = mlir::smelt::DType::f32;
};

class LoweredModel {
public:
  // Throws std::runtime_error when the IR does not verify or a pass fails.
  LoweredModel(const spec::ModelSpec &spec, const LoweringSettings &settings);

  mlir::smelt::ModelOp model() { return *module->getOps<mlir::smelt::ModelOp>().begin(); }
  template <typename OpT> std::vector<OpT> all() {
    std::vector<OpT> ops;
    module->walk([&](OpT op) { ops.push_back(op); });
    return ops;
  }
  std::string text();

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// The specs in specs/tests and specs/smelt, in the order of their names.
std::vector<spec::ModelSpec> shippedSpecs();
// A two-segment MoE spec for tests to vary.
spec::ModelSpec smallSpec();

} // namespace smelt::tests
