// smelt-interpret: evaluates a smelt model in double precision, for tests and for finding a wrong kernel.
#include "compiler/Import/CheckpointWeights.h"
#include "compiler/tools/smelt-interpret/Output.h"
#include "dialect/Interpreter/Interpreter.h"
#include "smelt/status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::smelt;
namespace cl = llvm::cl;

static cl::OptionCategory category("smelt-interpret options");
static cl::opt<std::string> modelPath(cl::Positional, cl::Required, cl::desc("<model.mlir>"),
                                      cl::cat(category));
static cl::opt<std::string> weightsPath("weights", cl::Required, cl::value_desc("FILE.safetensors or index"),
                                        cl::desc("the model's weights"), cl::cat(category));
static cl::list<int32_t> tokens("tokens", cl::CommaSeparated, cl::OneOrMore, cl::value_desc("1,2,3"),
                                cl::desc("the sequence"), cl::cat(category));
static cl::opt<std::string> logitsPath("logits", cl::value_desc("OUT.npy"),
                                       cl::desc("write the logits, f64 [tokens, vocabulary]"),
                                       cl::cat(category));
static cl::opt<std::string> routingPath("routing", cl::value_desc("OUT.json"),
                                        cl::desc("write which experts each token chose"), cl::cat(category));

static int fail(smelt_status status, const std::string &message) {
  llvm::errs() << "smelt-interpret: " << message << "\n";
  return status;
}

// The most likely next token after each one.
static void printPredictions(const interpreter::Tensor &logits) {
  for (int64_t t = 0; t < logits.rows(); ++t) {
    const double *row = logits.row(t), *best = std::max_element(row, row + logits.width());
    llvm::outs() << "token " << t << ": next " << best - row << " logit " << llvm::format("%.9g", *best)
                 << "\n";
  }
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "Evaluates a smelt model in double precision.\n");

  MLIRContext context;
  context.loadDialect<SmeltDialect>();
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(modelPath, sources, &context);
  if (!module) {
    return SMELT_usage;
  }
  auto models = module->getOps<ModelOp>();
  if (!llvm::hasSingleElement(models)) {
    return fail(SMELT_usage,
                modelPath + ": needs one smelt.model, has " + std::to_string(llvm::range_size(models)));
  }
  auto checkpoint = ::smelt::checkpoint::Checkpoint::open(weightsPath);
  if (auto *error = std::get_if<::smelt::checkpoint::ReadError>(&checkpoint)) {
    return fail(error->status, error->message);
  }
  ::smelt::checkpoint::CheckpointWeights weights(
      std::move(std::get<::smelt::checkpoint::Checkpoint>(checkpoint)));

  std::vector<interpreter::Routing> routings;
  interpreter::Options options;
  options.onRouting = [&](const interpreter::Routing &routing) { routings.push_back(routing); };
  FailureOr<interpreter::Tensor> logits = interpreter::interpret(*models.begin(), weights, tokens, options);
  if (failed(logits)) {
    return SMELT_input;
  }
  printPredictions(*logits);
  std::string error;
  if (!logitsPath.empty()) {
    error = ::smelt::interpret::writeNpy(logitsPath, *logits);
  }
  if (error.empty() && !routingPath.empty()) {
    error = ::smelt::interpret::writeRouting(routingPath, routings);
  }
  return error.empty() ? SMELT_ok : fail(SMELT_io, error);
}
