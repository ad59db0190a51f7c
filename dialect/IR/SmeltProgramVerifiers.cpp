// The numbered constraints of the program level; the text of each is in SmeltProgramOps.td.
#include "dialect/IR/KernelSignature.h"
#include "dialect/IR/SmeltOps.h"
#include "dialect/IR/SmeltProgramOps.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::smelt;

// The ops of one kind that share a model with `op`.
template <typename OpT> static auto siblings(Operation *op) { return op->getBlock()->getOps<OpT>(); }

LogicalResult KernelOp::verify() {
  std::string error;
  if (!kernelSignature(getRole(), getParams(), error)) { // C1, C2
    SmallVector<StringRef> problems;
    StringRef(error).split(problems, '\n');
    for (StringRef problem : problems) {
      emitOpError(problem);
    }
    return failure();
  }
  for (KernelOp other : siblings<KernelOp>(*this)) { // C3
    if (other == *this) {
      break;
    }
    if (other.getRole() == getRole() && other.getParams() == getParams()) {
      return emitOpError("has the role and params of @")
             << other.getSymName() << "; call that kernel instead";
    }
  }
  return success();
}

static bool isInput(BufferKind kind) {
  return kind == BufferKind::token_ids || kind == BufferKind::positions || kind == BufferKind::sequence_ids ||
         kind == BufferKind::logit_rows || kind == BufferKind::draws;
}

static LogicalResult verifyRope(BufferOp buffer) {
  bool isTable = buffer.getKind() == BufferKind::rope_table;
  std::optional<RopeAttr> rope = buffer.getRope();
  if (rope.has_value() != isTable) {
    return buffer.emitOpError() << "of kind " << stringifyBufferKind(buffer.getKind())
                                << (isTable ? " needs rope(<theta, dim>)" : " takes no rope");
  }
  if (!rope) {
    return success();
  }
  if (rope->getDim() <= 0 || rope->getDim() % 2 != 0) {
    return buffer.emitOpError("rope dim ") << rope->getDim() << " is not a positive even number";
  }
  if (!(rope->getTheta().getValueAsDouble() > 0)) {
    return buffer.emitOpError("rope theta ") << rope->getTheta().getValueAsDouble() << " is not positive";
  }
  ByteSize needed = {.per_position = 4 * rope->getDim()};
  if (ByteSize size = ByteSize::of(buffer.getSize()); size != needed) {
    return buffer.emitOpError("is ") << size.str() << " bytes but a rope table of dim " << rope->getDim()
                                     << " has " << needed.str();
  }
  return success();
}

LogicalResult BufferOp::verify() {
  SizeAttr size = getSize();
  int64_t terms[] = {size.getBytes(), size.getPerToken(), size.getPerLogitRow(), size.getPerPosition(),
                     size.getPerKvPosition()};
  if (llvm::any_of(terms, [](int64_t term) { return term < 0; })) { // C1
    return emitOpError("has a negative size term");
  }
  if (llvm::all_of(terms, [](int64_t term) { return term == 0; })) { // C1
    return emitOpError("has size zero");
  }
  if (getSlots() && getKind() != BufferKind::state) { // C2
    return emitOpError("of kind ") << stringifyBufferKind(getKind())
                                   << " takes no slots; only state buffers do";
  }
  if (getKind() == BufferKind::state && getSlots().value_or(0) < 1) { // C2
    return emitOpError("of kind state needs at least one slot");
  }
  if (failed(verifyRope(*this))) { // C3
    return failure();
  }
  bool wantsInt = isInput(getKind()) || getKind() == BufferKind::sampled, isInt = getDtype() == DType::i32;
  bool isBf16 = getDtype() == DType::bf16;
  bool fits = getKind() == BufferKind::workspace ? !isBf16
              : getKind() == BufferKind::state   ? !isInt
                                                 : wantsInt == isInt && !isBf16;
  if (!fits) { // C4
    return emitOpError("of kind ") << stringifyBufferKind(getKind()) << " cannot have elements of type "
                                   << stringifyDType(getDtype());
  }
  if (isInput(getKind()) || getKind() == BufferKind::logits || getKind() == BufferKind::sampled) { // C5
    for (BufferOp other : siblings<BufferOp>(*this)) {
      if (other != *this && other.getKind() == getKind() && other->isBeforeInBlock(*this)) {
        return emitOpError("is a second buffer of kind ")
               << stringifyBufferKind(getKind()) << ", after @" << other.getSymName();
      }
    }
  }
  return success();
}

//===-- program and blocks
//-------------------------------------------------------------------------------===//

template <typename OpT> static LogicalResult verifyHoldsOnly(Operation *op, Block &body) {
  for (Operation &nested : body) {
    if (!isa<OpT>(nested)) {
      return nested.emitOpError("cannot be in ")
             << op->getName() << ", which holds only " << OpT::getOperationName();
    }
  }
  return success();
}

// Reports the reads of a call from workspace that nothing has written, then marks what it writes.
static LogicalResult verifyReads(CallOp call, DenseSet<StringAttr> &written) {
  KernelOp kernel = call.getKernel();
  std::string error;
  std::optional<KernelSignature> signature;
  if (kernel) {
    signature = kernelSignature(kernel.getRole(), kernel.getParams(), error);
  }
  if (!signature || signature->arguments.size() != call.getBindings().size()) {
    return success(); // reported where it belongs
  }
  auto bindings = call.getBindings().getAsRange<BindingAttr>();
  for (auto [argument, binding] : llvm::zip(signature->arguments, bindings)) {
    auto buffer = binding.getKind() == BindingKind::buffer
                      ? SymbolTable::lookupNearestSymbolFrom<BufferOp>(call, binding.getSymbol())
                      : BufferOp();
    if (buffer && buffer.getKind() == BufferKind::workspace && argument.access != KernelAccess::write &&
        !written.contains(buffer.getSymNameAttr())) {
      return call.emitOpError("reads @") << buffer.getSymName() << " as '" << argument.name
                                         << "' but no earlier call of the step writes it";
    }
  }
  for (auto [argument, binding] : llvm::zip(signature->arguments, bindings)) {
    if (argument.access != KernelAccess::read) {
      written.insert(binding.getSymbol().getAttr());
    }
  }
  return success();
}

LogicalResult ProgramOp::verify() {
  if (failed(verifyHoldsOnly<BlockOp>(*this, getBody().front()))) { // C1
    return failure();
  }
  for (ProgramOp other : siblings<ProgramOp>(*this)) { // C2
    if (other != *this && other->isBeforeInBlock(*this)) {
      return emitOpError("is a second program of the model");
    }
  }
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  // The first pass through a block's calls is the strictest: later ones find more written.
  DenseSet<StringAttr> written;
  WalkResult result = walk([&](CallOp call) { // C3
    return failed(verifyReads(call, written)) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult BlockOp::verify() {
  if (failed(verifyHoldsOnly<CallOp>(*this, getBody().front()))) { // C1
    return failure();
  }
  bool straight = getLayers() == 0;
  if (straight && (getFirstLayer() != 0 || getVisits() != 1 || getOrder() != VisitOrder::block ||
                   getSlotBase() != 0)) { // C2
    return emitOpError("without layers takes no first layer, visits, order or slot_base");
  }
  if (!straight && (getFirstLayer() < 0 || getLayers() < 0 || getVisits() < 1 || getSlotBase() < 0)) { // C2
    return emitOpError("needs first_layer >= 0, layers >= 1, visits >= 1 and slot_base >= 0");
  }
  return success();
}

//===-- calls
//--------------------------------------------------------------------------------------------===//

namespace {

// Checks one binding of a call against the kernel's argument.
class BindingVerifier {
public:
  BindingVerifier(CallOp call, KernelOp kernel, SymbolTableCollection &symbols)
      : call(call), block(call->getParentOfType<BlockOp>()), kernel(kernel), symbols(symbols) {}

  LogicalResult verify(const KernelArgument &argument, BindingAttr binding) {
    if (binding.getKind() != argument.kind) { // C2
      return error(argument, binding)
             << "is bound as " << stringifyBindingKind(binding.getKind()) << " but " << kernel.getRole()
             << " takes a " << stringifyBindingKind(argument.kind);
    }
    Operation *target = symbols.lookupNearestSymbolFrom(call, binding.getSymbol());
    bool isWeight = argument.kind == BindingKind::weight || argument.kind == BindingKind::weight_table;
    if (isWeight ? !isa_and_nonnull<WeightOp>(target) : !isa_and_nonnull<BufferOp>(target)) { // C3
      return error(argument, binding)
             << "needs a " << (isWeight ? "smelt.weight" : "smelt.buffer")
             << (target ? ", not what the symbol names" : "; there is none of that name");
    }
    return isWeight ? verifyWeight(argument, binding, cast<WeightOp>(target))
                    : verifyBuffer(argument, binding, cast<BufferOp>(target));
  }

private:
  LogicalResult verifyBuffer(const KernelArgument &argument, BindingAttr binding, BufferOp buffer) {
    if ((buffer.getKind() == BufferKind::state) != (argument.kind == BindingKind::state_slot)) { // C3
      return error(argument, binding) << "is a buffer of kind " << stringifyBufferKind(buffer.getKind())
                                      << ", bound as " << stringifyBindingKind(binding.getKind());
    }
    if (buffer.getDtype() != argument.dtype) { // C4
      return error(argument, binding) << "has elements of type " << stringifyDType(buffer.getDtype())
                                      << " but the kernel takes " << stringifyDType(argument.dtype);
    }
    ByteSize size = ByteSize::of(buffer.getSize());
    if (!size.covers(argument.size)) { // C4
      return error(argument, binding)
             << "has " << size.str() << " bytes but the kernel touches " << argument.size.str();
    }
    if (argument.kind == BindingKind::state_slot) { // C6
      int64_t needed = block.getSlotBase() + block.getLayers() * block.getVisits();
      if (block.getLayers() == 0 || needed > buffer.getSlots().value_or(0)) {
        return error(argument, binding)
               << "has " << buffer.getSlots().value_or(0) << " slots but the block uses "
               << (block.getLayers() ? std::to_string(needed) : "none: it has no layers");
      }
    }
    bool samples = kernel.getRole() == "argmax" || kernel.getRole() == "sample";
    bool writable = buffer.getKind() == BufferKind::workspace || buffer.getKind() == BufferKind::state ||
                    buffer.getKind() == BufferKind::logits || buffer.getKind() == BufferKind::sampled ||
                    (samples && isInput(buffer.getKind()));
    if (argument.access != KernelAccess::read && !writable) { // C7
      return error(argument, binding)
             << "is written by the kernel but is of kind " << stringifyBufferKind(buffer.getKind());
    }
    return success();
  }

  LogicalResult verifyWeight(const KernelArgument &argument, BindingAttr binding, WeightOp weight) {
    RankedTensorType type = weight.getType();
    DType dtype = weightDType(weight);
    if (dtype != argument.dtype) { // C4
      return error(argument, binding) << "has elements of type " << stringifyDType(dtype)
                                      << " but the kernel takes " << stringifyDType(argument.dtype);
    }
    if (weight.getLayout() != argument.layout) { // C4
      return error(argument, binding) << "has layout " << stringifyWeightLayout(weight.getLayout())
                                      << " but the kernel takes " << stringifyWeightLayout(argument.layout);
    }
    int64_t bytes = weightBytes(weight.getLayout(), dtype, type.getShape());
    if (bytes != argument.size.bytes) { // C4
      return error(argument, binding)
             << "has " << bytes << " bytes but the kernel takes " << argument.size.str();
    }
    int64_t experts = weight.getExperts();
    if (experts != argument.experts) { // C5
      return error(argument, binding)
             << "has " << experts << " experts but the kernel takes " << argument.experts;
    }
    int64_t first = weight.getFirstLayer(), end = weight.getEndLayer();
    int64_t blockFirst = block.getFirstLayer(), blockEnd = blockFirst + block.getLayers();
    if (weight.isPerLayer() && (block.getLayers() == 0 || blockFirst < first || blockEnd > end)) { // C5
      return error(argument, binding)
             << "belongs to layers " << first << " to " << end << " but the block runs "
             << (block.getLayers()
                     ? "layers " + std::to_string(blockFirst) + " to " + std::to_string(blockEnd)
                     : "outside any layer");
    }
    return success();
  }

  InFlightDiagnostic error(const KernelArgument &argument, BindingAttr binding) {
    return call.emitOpError("argument '") << argument.name << "' (" << binding.getSymbol() << ") ";
  }

  CallOp call;
  BlockOp block;
  KernelOp kernel;
  SymbolTableCollection &symbols;
};

} // namespace

static LogicalResult verifyConstants(CallOp call, const KernelSignature &signature) {
  auto constants = call.getConstants().getAsRange<ConstantAttr>();
  for (auto [expected, constant] : llvm::zip(signature.constants, constants)) {
    if (constant.getKind() != expected.kind) {
      return call.emitOpError("constant '")
             << expected.name << "' is given as " << stringifyConstantKind(constant.getKind())
             << " but the kernel takes " << stringifyConstantKind(expected.kind);
    }
  }
  return success();
}

static LogicalResult verifyAliases(CallOp call, const KernelSignature &signature) {
  auto bindings = llvm::to_vector(call.getBindings().getAsRange<BindingAttr>());
  for (size_t i = 0; i < bindings.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const KernelArgument &first = signature.arguments[j], &second = signature.arguments[i];
      bool written = first.access != KernelAccess::read || second.access != KernelAccess::read;
      bool inPlace = StringRef(first.name) == "x_in" && StringRef(second.name) == "x_out";
      if (bindings[i].getSymbol() == bindings[j].getSymbol() && written && !inPlace) {
        return call.emitOpError("binds ") << bindings[i].getSymbol() << " as '" << first.name << "' and '"
                                          << second.name << "', one of which the kernel writes";
      }
    }
  }
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getCalleeAttr());
  if (!kernel) { // C1
    return emitOpError("callee ") << getCalleeAttr() << " is not a smelt.kernel";
  }
  std::string error;
  std::optional<KernelSignature> signature = kernelSignature(kernel.getRole(), kernel.getParams(), error);
  if (!signature) {
    return success(); // the kernel reports it
  }
  if (signature->arguments.size() != getBindings().size()) { // C2
    return emitOpError("has ") << getBindings().size() << " bindings but " << kernel.getRole() << " takes "
                               << signature->arguments.size();
  }
  if (signature->constants.size() != getConstants().size()) { // C2
    return emitOpError("has ") << getConstants().size() << " constants but " << kernel.getRole() << " takes "
                               << signature->constants.size();
  }
  BindingVerifier verifier(*this, kernel, symbols);
  for (auto [argument, binding] : llvm::zip(signature->arguments, getBindings().getAsRange<BindingAttr>())) {
    if (failed(verifier.verify(argument, binding))) {
      return failure();
    }
  }
  return failure(failed(verifyConstants(*this, *signature)) || failed(verifyAliases(*this, *signature)));
}
