#include "tests/support/InterpretedModel.h"

#include "compiler/Lowering/BuildModel.h"
#include "dialect/Interpreter/Interpreter.h"
#include "dialect/Transforms/Passes.h"
#include "tests/support/Safetensors.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <cstring>
#include <map>
#include <stdexcept>
#include <tuple>

namespace smelt::tests {
namespace {

using mlir::smelt::interpreter::WeightElement;

class FileWeights : public mlir::smelt::interpreter::WeightSource {
public:
  explicit FileWeights(const std::string &path) : tensors(readSafetensors(path)) {}

  std::optional<std::vector<double>> read(const std::string &name, const std::vector<int64_t> &shape,
                                          WeightElement element, std::string &error) override {
    if (element == WeightElement::i8) {
      return dequantized(name, shape, error);
    }
    const StoredTensor *found = find(name, shape, element == WeightElement::f32 ? "F32" : "BF16", error);
    if (!found) {
      return std::nullopt;
    }
    return widened(found->bytes, element == WeightElement::f32 ? 4 : 2);
  }

private:
  const StoredTensor *find(const std::string &name, const std::vector<int64_t> &shape, const char *dtype,
                           std::string &error) const {
    const auto found = tensors.find(name);
    if (found == tensors.end() || found->second.shape != shape || found->second.dtype != dtype) {
      error = "the file has no such tensor of this shape and type";
      return nullptr;
    }
    return &found->second;
  }

  // Codes times the scales of their blocks of 32.
  std::optional<std::vector<double>> dequantized(const std::string &name, const std::vector<int64_t> &shape,
                                                 std::string &error) const {
    const int64_t columns = shape.back(), blocks = (columns + 31) / 32;
    const StoredTensor *codes = find(name, shape, "I8", error);
    const StoredTensor *factors = find(name + "_scale", {shape.front(), blocks}, "BF16", error);
    if (!codes || !factors) {
      return std::nullopt;
    }
    const std::vector<double> scales = widened(factors->bytes, 2);
    std::vector<double> values(codes->bytes.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / columns, column = i % columns;
      values[i] = static_cast<int8_t>(codes->bytes[i]) * scales[row * blocks + column / 32];
    }
    return values;
  }

  static std::vector<double> widened(const std::string &bytes, size_t size) {
    std::vector<double> values(bytes.size() / size);
    for (size_t i = 0; i < values.size(); ++i) {
      // A bf16 is the upper half of an f32.
      char padded[4] = {};
      std::memcpy(padded + 4 - size, bytes.data() + i * size, size);
      float value;
      std::memcpy(&value, padded, sizeof(value));
      values[i] = value;
    }
    return values;
  }

  TensorMap tensors;
};

} // namespace

struct InterpretedModel::State {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  FileWeights weights;

  explicit State(const std::string &path) : weights(path) {}
  mlir::smelt::ModelOp model() { return *module->getOps<mlir::smelt::ModelOp>().begin(); }
};

InterpretedModel::InterpretedModel(const spec::ModelSpec &spec, const std::string &weights_path,
                                   const CompileSettings &settings)
    : state(std::make_unique<State>(weights_path)) {
  state->module =
      lowering::buildModel(state->context, spec, dtypeOf(settings.precision), dtypeOf(settings.kv_cache));
  if (settings.unroll_visits) {
    mlir::PassManager manager(&state->context);
    manager.addNestedPass<mlir::smelt::ModelOp>(mlir::smelt::createSmeltUnrollVisits());
    if (mlir::failed(manager.run(*state->module))) {
      throw std::runtime_error("smelt-unroll-visits failed");
    }
  }
}

InterpretedModel::~InterpretedModel() = default;

Interpretation InterpretedModel::run(const std::vector<int32_t> &tokens,
                                     const std::vector<RoutingChoice> &forced) const {
  using namespace mlir::smelt::interpreter;
  std::map<std::tuple<int64_t, int64_t, int64_t>, const RoutingChoice *> by_place;
  for (const RoutingChoice &choice : forced) {
    by_place[{choice.layer, choice.visit, choice.token}] = &choice;
  }
  Interpretation result;
  Options options;
  options.forcedExperts = [&](const Place &place, int64_t token) {
    const auto found = by_place.find({place.layer, place.visit, token});
    return found == by_place.end() ? std::vector<int32_t>() : found->second->experts;
  };
  options.onRouting = [&](const Routing &routing) {
    for (int64_t t = 0; t < routing.indices.rows(); ++t) {
      const double *indices = routing.indices.row(t), *logits = routing.logits.row(t);
      result.routing.push_back({{static_cast<int32_t>(routing.place.layer),
                                 static_cast<int32_t>(routing.place.visit),
                                 static_cast<uint64_t>(t),
                                 {indices, indices + routing.indices.width()}},
                                {logits, logits + routing.logits.width()}});
    }
  };
  const auto logits = interpret(state->model(), state->weights, tokens, options);
  if (mlir::failed(logits)) {
    throw std::runtime_error("the interpreter failed");
  }
  result.logits = logits->values;
  return result;
}

} // namespace smelt::tests
