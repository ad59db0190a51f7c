#include "dialect/IR/SmeltProgramOps.h"

#include "dialect/IR/KernelSignature.h"
#include "dialect/IR/SmeltOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::smelt;

//===-- printed forms
//------------------------------------------------------------------------------------===//

static constexpr StringRef SIZE_TERMS[] = {"bytes", "per_token", "per_logit_row", "per_position",
                                           "per_kv_position"};

// (bytes = 4, per_token = 128): the terms that are not zero, in any order.
static ParseResult parseSize(AsmParser &parser, SizeAttr &size) {
  int64_t values[5] = {};
  SmallVector<StringRef> seen;
  auto parseTerm = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name)) {
      return failure();
    }
    const StringRef *term = llvm::find(SIZE_TERMS, name);
    if (term == std::end(SIZE_TERMS)) {
      return parser.emitError(loc) << "no size term '" << name << "'; there are "
                                   << llvm::join(ArrayRef(SIZE_TERMS), ", ");
    }
    if (llvm::is_contained(seen, name)) {
      return parser.emitError(loc) << "size term '" << name << "' is given twice";
    }
    seen.push_back(name);
    return failure(parser.parseEqual() || parser.parseInteger(values[term - SIZE_TERMS]));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseTerm)) {
    return failure();
  }
  size = SizeAttr::get(parser.getContext(), values[0], values[1], values[2], values[3], values[4]);
  return success();
}

static void printSize(AsmPrinter &printer, SizeAttr size) {
  int64_t values[] = {size.getBytes(), size.getPerToken(), size.getPerLogitRow(), size.getPerPosition(),
                      size.getPerKvPosition()};
  SmallVector<std::string> terms;
  for (auto [name, value] : llvm::zip(SIZE_TERMS, values)) {
    if (value) {
      terms.push_back(name.str() + " = " + std::to_string(value));
    }
  }
  printer << "(" << llvm::join(terms, ", ") << ")";
}

static ParseResult parseSize(OpAsmParser &parser, SizeAttr &size) {
  return parseSize(static_cast<AsmParser &>(parser), size);
}
static void printSize(OpAsmPrinter &printer, Operation *, SizeAttr size) { printSize(printer, size); }

Attribute SizeAttr::parse(AsmParser &parser, Type) {
  SizeAttr size;
  if (parser.parseLess() || parseSize(parser, size) || parser.parseGreater()) {
    return {};
  }
  return size;
}

void SizeAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printSize(printer, *this);
  printer << ">";
}

// layers(a to b) visits(r) order(block) slot_base(n), or nothing.
static ParseResult parseBlockLoop(OpAsmParser &parser, IntegerAttr &firstLayer, IntegerAttr &layers,
                                  IntegerAttr &visits, VisitOrderAttr &order, IntegerAttr &slotBase) {
  int64_t first = 0, end = 0, visitCount = 1, base = 0;
  VisitOrder visitOrder = VisitOrder::block;
  Builder &builder = parser.getBuilder();
  if (succeeded(parser.parseOptionalKeyword("layers"))) {
    StringRef orderName;
    if (parser.parseLParen() || parser.parseInteger(first) || parser.parseKeyword("to") ||
        parser.parseInteger(end) || parser.parseRParen() || parser.parseKeyword("visits") ||
        parser.parseLParen() || parser.parseInteger(visitCount) || parser.parseRParen() ||
        parser.parseKeyword("order") || parser.parseLParen()) {
      return failure();
    }
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&orderName)) {
      return failure();
    }
    std::optional<VisitOrder> parsed = symbolizeVisitOrder(orderName);
    if (!parsed) {
      return parser.emitError(loc) << "no order '" << orderName << "'; there are block, layer";
    }
    visitOrder = *parsed;
    if (parser.parseRParen() || parser.parseKeyword("slot_base") || parser.parseLParen() ||
        parser.parseInteger(base) || parser.parseRParen()) {
      return failure();
    }
    if (end <= first) {
      return parser.emitError(loc) << "layers(" << first << " to " << end << ") holds no layer";
    }
  }
  firstLayer = builder.getI64IntegerAttr(first);
  layers = builder.getI64IntegerAttr(end - first);
  visits = builder.getI64IntegerAttr(visitCount);
  order = VisitOrderAttr::get(parser.getContext(), visitOrder);
  slotBase = builder.getI64IntegerAttr(base);
  return success();
}

static void printBlockLoop(OpAsmPrinter &printer, Operation *, IntegerAttr firstLayer, IntegerAttr layers,
                           IntegerAttr visits, VisitOrderAttr order, IntegerAttr slotBase) {
  if (layers.getInt() == 0) {
    return;
  }
  printer << " layers(" << firstLayer.getInt() << " to " << firstLayer.getInt() + layers.getInt()
          << ") visits(" << visits.getInt() << ") order(" << stringifyVisitOrder(order.getValue())
          << ") slot_base(" << slotBase.getInt() << ")";
}

// (buffer @x, weight @w)
static ParseResult parseBindings(OpAsmParser &parser, ArrayAttr &bindings) {
  SmallVector<Attribute> parsed;
  auto parseOne = [&]() -> ParseResult {
    StringRef name;
    FlatSymbolRefAttr symbol;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name)) {
      return failure();
    }
    std::optional<BindingKind> kind = symbolizeBindingKind(name);
    if (!kind) {
      return parser.emitError(loc) << "no binding kind '" << name
                                   << "'; there are buffer, state_slot, weight, weight_table";
    }
    if (parser.parseAttribute(symbol)) {
      return failure();
    }
    parsed.push_back(BindingAttr::get(parser.getContext(), *kind, symbol));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne)) {
    return failure();
  }
  bindings = parser.getBuilder().getArrayAttr(parsed);
  return success();
}

static void printBindings(OpAsmPrinter &printer, Operation *, ArrayAttr bindings) {
  printer << "(";
  llvm::interleaveComma(bindings.getAsRange<BindingAttr>(), printer, [&](BindingAttr binding) {
    printer << stringifyBindingKind(binding.getKind()) << " " << binding.getSymbol();
  });
  printer << ")";
}

// (token_count, immediate 7)
static ParseResult parseConstants(OpAsmParser &parser, ArrayAttr &constants) {
  SmallVector<Attribute> parsed;
  auto parseOne = [&]() -> ParseResult {
    StringRef name;
    int32_t value = 0;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name)) {
      return failure();
    }
    std::optional<ConstantKind> kind = symbolizeConstantKind(name);
    if (!kind) {
      return parser.emitError(loc)
             << "no constant kind '" << name
             << "'; there are immediate, token_count, logit_row_count, sequence_count, kv_capacity";
    }
    if (*kind == ConstantKind::immediate && parser.parseInteger(value)) {
      return failure();
    }
    parsed.push_back(ConstantAttr::get(parser.getContext(), *kind, value));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne)) {
    return failure();
  }
  constants = parser.getBuilder().getArrayAttr(parsed);
  return success();
}

static void printConstants(OpAsmPrinter &printer, Operation *, ArrayAttr constants) {
  printer << "(";
  llvm::interleaveComma(constants.getAsRange<ConstantAttr>(), printer, [&](ConstantAttr constant) {
    printer << stringifyConstantKind(constant.getKind());
    if (constant.getKind() == ConstantKind::immediate) {
      printer << " " << constant.getValue();
    }
  });
  printer << ")";
}

//===-- builders and accessors
//---------------------------------------------------------------------------===//

int64_t KernelOp::getParam(StringRef name) { return cast<IntegerAttr>(getParams().get(name)).getInt(); }

void BlockOp::build(OpBuilder &builder, OperationState &state) {
  build(builder, state, 0, 0, 1, VisitOrder::block, 0);
}

void BlockOp::build(OpBuilder &builder, OperationState &state, int64_t firstLayer, int64_t layers,
                    int64_t visits, VisitOrder order, int64_t slotBase) {
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.first_layer = builder.getI64IntegerAttr(firstLayer);
  properties.layers = builder.getI64IntegerAttr(layers);
  properties.visits = builder.getI64IntegerAttr(visits);
  properties.order = VisitOrderAttr::get(builder.getContext(), order);
  properties.slot_base = builder.getI64IntegerAttr(slotBase);
  state.addRegion()->emplaceBlock();
}

KernelOp CallOp::getKernel() {
  return SymbolTable::lookupNearestSymbolFrom<KernelOp>(*this, getCalleeAttr());
}

#define GET_OP_CLASSES
#include "dialect/IR/SmeltProgramOps.cpp.inc"

void SmeltDialect::registerProgramOps() {
  addOperations<
#define GET_OP_LIST
#include "dialect/IR/SmeltProgramOps.cpp.inc"
      >();
}
