#include "dialect/Interpreter/Interpreter.h"

#include "dialect/Interpreter/Ops.h"

#include "llvm/ADT/TypeSwitch.h"

#include <limits>

namespace mlir::smelt::interpreter {
namespace {

class Evaluator {
public:
  Evaluator(ModelOp model, WeightSource &source, const Options &options)
      : symbols(model), source(source), options(options) {}

  FailureOr<Tensor> run(ForwardOp forward, Tensor tokens) {
    set(forward.getTokens(), std::move(tokens));
    Block &body = forward.getBody().front();
    if (failed(evalBlock(body))) {
      return failure();
    }
    return get(cast<ReturnOp>(body.getTerminator()).getLogits());
  }

private:
  // All ops of a block but its terminator.
  LogicalResult evalBlock(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (failed(evalOp(&op))) {
        return failure();
      }
    }
    return success();
  }

  LogicalResult evalOp(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<EmbedOp, RmsNormOp, LinearOp, RopeOp, AttentionOp, RouteOp, ExpertLinearOp, SwigluOp, CombineOp,
              ResidualAddOp, AddOp, LmHeadOp, SegmentOp, FusedOp>([&](auto typed) { return eval(typed); })
        .Default([](Operation *other) { return other->emitOpError("has no meaning to the interpreter"); });
  }

  // Structure.

  LogicalResult eval(SegmentOp op) {
    Tensor x = get(op.getInput());
    int64_t outer = op.getOrder() == VisitOrder::block ? op.getVisits() : op.layerCount();
    int64_t inner = op.executedLayers() / outer;
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        auto [visit, index] = op.getOrder() == VisitOrder::block ? std::pair(i, j) : std::pair(j, i);
        int64_t layer = op.getFirstLayer() + index;
        place = {layer, visit, op.kvSlot(visit, layer)};
        set(op.getBody().getArgument(0), std::move(x));
        if (failed(evalBlock(op.getBody().front()))) {
          return failure();
        }
        x = get(op.getYield().getValues()[0]);
      }
    }
    place = {};
    set(op.getResult(), std::move(x));
    return success();
  }

  LogicalResult eval(FusedOp op) {
    for (auto [input, argument] : llvm::zip_equal(op.getInputs(), op.getBody().getArguments())) {
      set(argument, get(input));
    }
    if (failed(evalBlock(op.getBody().front()))) {
      return failure();
    }
    for (auto [value, result] : llvm::zip_equal(op.getYield().getValues(), op.getResults())) {
      set(result, get(value));
    }
    return success();
  }

  // Computation: weights are read, then Ops.h does the arithmetic.

  LogicalResult eval(EmbedOp op) {
    FailureOr<Tensor> weight = read(op, op.getWeightAttr());
    return succeeded(weight) ? finish(op.getResult(), evalEmbed(get(op.getTokens()), *weight)) : failure();
  }

  LogicalResult eval(RmsNormOp op) {
    FailureOr<Tensor> weight = read(op, op.getWeightAttr());
    if (failed(weight)) {
      return failure();
    }
    double eps = op.getEps().convertToFloat();
    return finish(op.getResult(), evalRmsNorm(get(op.getInput()), *weight, eps, op.getHeads().value_or(1)));
  }

  LogicalResult eval(LinearOp op) {
    FailureOr<Tensor> weight = read(op, op.getWeightAttr());
    FailureOr<Tensor> bias = op.getBiasAttr() ? read(op, op.getBiasAttr()) : FailureOr<Tensor>(Tensor());
    if (failed(weight) || failed(bias)) {
      return failure();
    }
    return finish(op.getResult(),
                  evalLinear(get(op.getInput()), *weight, op.getBiasAttr() ? &*bias : nullptr));
  }

  LogicalResult eval(RopeOp op) {
    return finish(op.getResult(),
                  evalRope(get(op.getInput()), op.getHeads(), op.getTheta().convertToDouble()));
  }

  LogicalResult eval(AttentionOp op) {
    AttentionShape shape{op.getQueryHeads(), op.getKvHeads(), op.getHeadDim()};
    Tensor key = get(op.getKey()), value = get(op.getValue());
    if (op->getParentOfType<ModelOp>().kvLayout() != KvLayout::blocked_f32) {
      roundToBf16(key);
      roundToBf16(value);
    }
    return finish(op.getResult(), evalAttention(get(op.getQuery()), key, value, shape));
  }

  LogicalResult eval(RouteOp op) {
    Routing routing{place, get(op.getLogits()), {}, {}, {}};
    if (failed(chooseExperts(op, routing))) {
      return failure();
    }
    routing.weights = evalRouteWeights(routing.logits, routing.indices, op.getRouter() == RouterKind::sigmoid,
                                       op.getRenormalize());
    set(op.getIndices(), routing.indices);
    set(op.getWeights(), routing.weights);
    if (options.onRouting) {
      options.onRouting(routing);
    }
    return success();
  }

  LogicalResult eval(ExpertLinearOp op) {
    bool complete = true;
    int64_t in = width(op.getInput()), out = width(op.getResult());
    Tensor result = evalExpertLinear(get(op.getInput()), get(op.getIndices()), out, [&](int64_t expert) {
      FailureOr<Tensor> weight =
          complete ? read(op, op.getWeightAttr(), expert) : FailureOr<Tensor>(failure());
      complete = succeeded(weight);
      return complete ? std::move(*weight) : Tensor({out, in});
    });
    return complete ? finish(op.getResult(), std::move(result)) : failure();
  }

  LogicalResult eval(SwigluOp op) {
    return finish(op.getResult(), evalSwiglu(get(op.getGate()), get(op.getUp())));
  }

  LogicalResult eval(CombineOp op) {
    return finish(op.getResult(), evalCombine(get(op.getRows()), get(op.getWeights())));
  }

  LogicalResult eval(ResidualAddOp op) {
    double scale = op.getScale().convertToFloat();
    return finish(op.getResult(), evalResidualAdd(get(op.getInput()), get(op.getUpdate()), scale));
  }

  LogicalResult eval(AddOp op) { return finish(op.getResult(), evalAdd(get(op.getLhs()), get(op.getRhs()))); }

  LogicalResult eval(LmHeadOp op) {
    FailureOr<Tensor> weight = read(op, op.getWeightAttr());
    return succeeded(weight) ? finish(op.getResult(), evalLinear(get(op.getInput()), *weight, nullptr))
                             : failure();
  }

  // Routing.

  // Fills the indices and gaps of a routing whose logits are known.
  LogicalResult chooseExperts(RouteOp op, Routing &routing) {
    const Tensor &logits = routing.logits;
    int64_t topK = op.getTopK();
    routing.indices = Tensor({logits.rows(), topK});
    for (int64_t t = 0; t < logits.rows(); ++t) {
      std::vector<int64_t> chosen = topExperts(logits.row(t), logits.width(), topK);
      if (options.forcedExperts) {
        std::vector<int32_t> forced = options.forcedExperts(place, t);
        if (!forced.empty()) {
          chosen.assign(forced.begin(), forced.end());
        }
      }
      bool fits = static_cast<int64_t>(chosen.size()) == topK && llvm::all_of(chosen, [&](int64_t expert) {
                    return expert >= 0 && expert < logits.width() && llvm::count(chosen, expert) == 1;
                  });
      if (!fits) {
        return op.emitOpError() << "needs " << topK << " different experts below " << logits.width()
                                << " for token " << t << ", but other ones were forced";
      }
      llvm::copy(chosen, routing.indices.row(t));
      routing.gaps.push_back(gapBelow(logits.row(t), logits.width(), chosen));
    }
    return success();
  }

  static double gapBelow(const double *logits, int64_t experts, ArrayRef<int64_t> chosen) {
    double lowestChosen = std::numeric_limits<double>::infinity(), highestOther = -lowestChosen;
    for (int64_t expert = 0; expert < experts; ++expert) {
      if (llvm::is_contained(chosen, expert)) {
        lowestChosen = std::min(lowestChosen, logits[expert]);
      } else {
        highestOther = std::max(highestOther, logits[expert]);
      }
    }
    return lowestChosen - highestOther;
  }

  // Values and weights.

  const Tensor &get(Value value) { return values.at(value); }

  void set(Value value, Tensor tensor) {
    if (options.onValue) {
      options.onValue(value, place, tensor);
    }
    values[value] = std::move(tensor);
  }

  // The last step of an op with one result.
  LogicalResult finish(Value result, Tensor tensor) {
    set(result, std::move(tensor));
    return success();
  }

  // The tensor of a weight for the current layer.
  FailureOr<Tensor> read(Operation *op, FlatSymbolRefAttr symbol, int64_t expert = 0) {
    auto weight = symbols.lookup<WeightOp>(symbol.getAttr());
    std::vector<int64_t> shape = weight.getType().getShape().vec();
    Type type = weight.getType().getElementType();
    WeightElement element = type.isInteger(8) ? WeightElement::i8
                            : type.isBF16()   ? WeightElement::bf16
                                              : WeightElement::f32;
    std::string error, name = weight.tensorName(place.layer, expert);
    std::optional<std::vector<double>> data = source.read(name, shape, element, error);
    if (!data) {
      return op->emitOpError() << "cannot read weight '" << name << "': " << error;
    }
    return Tensor(std::move(shape), std::move(*data));
  }

  SymbolTable symbols;
  WeightSource &source;
  const Options &options;
  Place place;
  DenseMap<Value, Tensor> values;
};

} // namespace

FailureOr<Tensor> interpret(ModelOp model, WeightSource &weights, ArrayRef<int32_t> tokens,
                            const Options &options) {
  ForwardOp forward = model.getForward();
  if (!forward) {
    return model.emitOpError("has no smelt.forward to interpret");
  }
  if (tokens.empty()) {
    return model.emitOpError("needs at least one token to interpret");
  }
  for (int32_t token : tokens) {
    if (token < 0 || token >= model.getVocabSize()) {
      return model.emitOpError() << "has a vocabulary of " << model.getVocabSize() << " tokens, got token "
                                 << token;
    }
  }
  Tensor ids({static_cast<int64_t>(tokens.size())}, std::vector<double>(tokens.begin(), tokens.end()));
  return Evaluator(model, weights, options).run(forward, std::move(ids));
}

} // namespace mlir::smelt::interpreter
