#include "tests/compiler/Lowering/LoweredModel.h"

#include "compiler/Lowering/BuildModel.h"
#include "compiler/Lowering/Pipeline.h"
#include "compiler/Spec/SpecReader.h"
#include "dialect/Transforms/Passes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace smelt::tests {

LoweredModel::LoweredModel(const spec::ModelSpec &spec, const LoweringSettings &settings)
    : context(mlir::MLIRContext::Threading::DISABLED),
      module(lowering::buildModel(context, spec, settings.weights)) {
  if (mlir::failed(mlir::verify(*module))) {
    throw std::runtime_error("the tensor level of " + spec.name + " does not verify");
  }
  mlir::PassManager manager(&context); // verifies after each pass
  if (settings.unroll_visits) {
    manager.addNestedPass<mlir::smelt::ModelOp>(mlir::smelt::createSmeltUnrollVisits());
  }
  if (settings.last_phase != "build") {
    lowering::buildLoweringPipeline(manager, settings.last_phase);
  }
  if (mlir::failed(manager.run(*module))) {
    throw std::runtime_error("lowering " + spec.name + " fails");
  }
}

std::string LoweredModel::text() {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

std::vector<spec::ModelSpec> shippedSpecs() {
  std::vector<std::string> paths;
  for (const char *folder : {"/specs/tests", "/specs/smelt"}) {
    for (const auto &entry : std::filesystem::directory_iterator(std::string(SMELT_SOURCE_DIR) + folder)) {
      if (entry.path().extension() == ".toml") {
        paths.push_back(entry.path().string());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<spec::ModelSpec> specs;
  for (const std::string &path : paths) {
    specs.push_back(*spec::readSpecFile(path).spec);
  }
  return specs;
}

spec::ModelSpec smallSpec() {
  spec::ModelSpec spec;
  spec.name = "small";
  spec.vocab_size = 48;
  spec.hidden_size = 32;
  spec.attention = {.query_heads = 4, .kv_heads = 2, .head_dim = 8};
  spec.moe = spec::Moe{.experts = 5, .top_k = 2, .expert_hidden_size = 16};
  spec::Segment first{.layers = 1, .attention = spec.attention};
  spec::Segment looped{.layers = 2, .visits = 2, .residual_scale = 0.5, .attention = spec.attention};
  spec.segments = {first, looped};
  return spec;
}

} // namespace smelt::tests
