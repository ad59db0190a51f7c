// The tensor level says what the spec says.
#include "compiler/Lowering/BuildModel.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/WeightTable.h"
#include "tests/compiler/Lowering/LoweredModel.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>

#include <set>

using namespace mlir::smelt;

namespace smelt::tests {

static LoweredModel build(const spec::ModelSpec &spec, DType weights = DType::f32) {
  return LoweredModel(spec, {.last_phase = "build", .weights = weights});
}

TEST_CASE("the weights are those of the weight table, and all are used") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const spec::ModelSpec spec = generateSpec(seed);
    LoweredModel lowered = build(spec, DType::bf16);
    const auto table = spec::weightTable(spec);
    const auto weights = lowered.all<WeightOp>();
    REQUIRE(weights.size() == table.size());
    for (size_t i = 0; i < table.size(); ++i) {
      WeightOp weight = weights[i];
      CHECK(weight.getSource() == table[i].name);
      CHECK(weight.getType().getShape().vec() == llvm::ArrayRef(table[i].shape).vec());
      CHECK(weight.getType().getElementType().isBF16());
      CHECK(weight.getFirstLayer() == table[i].first_layer);
      CHECK(weight.getEndLayer() == (table[i].layers ? table[i].first_layer + table[i].layers : 0));
      CHECK(weight.getExperts() == table[i].experts);
      CHECK_FALSE(mlir::SymbolTable::symbolKnownUseEmpty(weight, lowered.model()));
    }
  }
}

TEST_CASE("segments keep their loops, slots and scales") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const spec::ModelSpec spec = generateSpec(seed);
    LoweredModel lowered = build(spec);
    const auto segments = lowered.all<SegmentOp>();
    REQUIRE(segments.size() == spec.segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      SegmentOp op = segments[i];
      CHECK(op.getFirstLayer() == spec.firstLayer(i));
      CHECK(op.layerCount() == spec.segments[i].layers);
      CHECK(op.getVisits() == spec.segments[i].visits);
      CHECK((op.getOrder() == VisitOrder::layer) == (spec.segments[i].order == spec::VisitOrder::layer));
      CHECK(op.getKvBase() == spec.firstKvSlot(i));
      op.walk([&](ResidualAddOp write) {
        CHECK(write.getScale().convertToFloat() == static_cast<float>(spec.segments[i].residual_scale));
      });
    }
  }
}

TEST_CASE("the model carries the spec and its budgets") {
  const spec::ModelSpec spec = smallSpec();
  LoweredModel lowered = build(spec);
  CHECK(lowered.model().getSymName() == "small");
  const auto parsed = spec::parseSpec(lowered.model().getSpec()->str(), "model.toml");
  REQUIRE(parsed);
  CHECK(*parsed.spec == spec);
  CHECK(lowered.model().getBudgets()->getAs<mlir::IntegerAttr>("executed_layers").getInt() == 5);
}

TEST_CASE("every field that changes the network changes the tensor level") {
  const spec::ModelSpec original = generateSpec(3);
  auto forwardText = [](const spec::ModelSpec &spec) {
    LoweredModel lowered = build(spec);
    std::string text = lowered.text();
    return text.substr(text.find("smelt.weight"));
  };
  const std::string before = forwardText(original);
  for (const FieldChange &change : fieldChanges(original)) {
    INFO(change.field);
    const bool onlyAName = change.field == "model.name";
    CHECK((forwardText(change.spec) == before) == onlyAName);
  }
}

} // namespace smelt::tests
