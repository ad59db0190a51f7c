#include "compiler/Lowering/Pipeline.h"
#include "compiler/Spec/SpecValidator.h"
#include "tests/compiler/Lowering/LoweredModel.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>

#include <set>

using namespace mlir::smelt;

namespace smelt::tests {

static std::set<std::string> kernelNames(const spec::ModelSpec &spec, bool unroll = false) {
  LoweredModel lowered(spec, {.unroll_visits = unroll});
  std::set<std::string> names;
  for (KernelOp kernel : lowered.all<KernelOp>()) {
    names.insert(kernel.getSymName().str());
  }
  REQUIRE(names.size() == lowered.all<KernelOp>().size());
  return names;
}

TEST_CASE("every shipped spec becomes a program") {
  for (const spec::ModelSpec &spec : shippedSpecs()) {
    for (DType weights : {DType::f32, DType::bf16}) {
      LoweredModel lowered(spec, {.weights = weights});
      CHECK(lowered.all<ProgramOp>().size() == 1);
      CHECK(lowered.all<ForwardOp>().empty());
    }
  }
}

TEST_CASE("random specs become programs, looped and unrolled") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const spec::ModelSpec spec = generateSpec(seed);
    CHECK(kernelNames(spec) == kernelNames(spec, true));
  }
}

TEST_CASE("every phase leaves its level") {
  const std::vector<std::string> names = {"canonicalize", "fuse", "choose-layouts", "plan-memory",
                                          "to-kernels"};
  REQUIRE(lowering::phases().size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    CHECK(lowering::phases()[i].name == names[i]);
    LoweredModel lowered(smallSpec(), {.last_phase = names[i]});
    CHECK(lowered.all<FusedOp>().empty() == (i == 0 || i == 4));
    CHECK(lowered.all<BufferOp>().empty() == (i < 3));
    CHECK(lowered.all<ProgramOp>().empty() == (i < 4));
  }
}

TEST_CASE("kernels do not grow with depth, visits or order") {
  const spec::ModelSpec small = smallSpec();
  spec::ModelSpec deep = small;
  deep.segments[0].layers = 7;
  deep.segments[1].layers = 30;
  deep.segments[1].visits = 4;
  deep.segments[1].order = spec::VisitOrder::layer;
  deep.segments.push_back(deep.segments[0]);
  CHECK(kernelNames(deep) == kernelNames(small));
}

TEST_CASE("the largest sizes that a spec may have become kernels") {
  spec::ModelSpec spec = smallSpec();
  spec.vocab_size = spec::Limits::vocab_size;
  spec.hidden_size = spec::Limits::width;
  CHECK(kernelNames(spec).size() == kernelNames(smallSpec()).size());
}

TEST_CASE("the same spec gives the same text") {
  LoweredModel first(smallSpec(), {}), second(smallSpec(), {});
  CHECK(first.text() == second.text());
}

} // namespace smelt::tests
