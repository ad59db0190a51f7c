#include "tests/compiler/Codegen/KernelHarness.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace smelt::codegen;
using namespace smelt::codegen::test;

namespace {

// Routing of `tokens` tokens to top_k distinct experts, with the plan made here rather than by moe_plan.
struct Routing {
  Routing(int64_t tokens, int64_t experts, int64_t topK) : plan(2 * experts + 2 + 2 * tokens * topK, 0) {
    std::mt19937 generator(7);
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<int32_t> order;
      for (int64_t e = 0; e < experts; ++e) {
        order.push_back(e);
      }
      // Half of the tokens prefer the first experts, so that some get many rows and some none.
      if (t % 2) {
        std::shuffle(order.begin(), order.end(), generator);
      }
      expertOf.insert(expertOf.end(), order.begin(), order.begin() + topK);
    }
    int32_t *slotToken = &plan[2 * experts + 2], *slotOf = slotToken + tokens * topK, slot = 0;
    for (int64_t e = 0; e < experts; ++e) {
      plan[e] = slot;
      for (int64_t pair = 0; pair < tokens * topK; ++pair) {
        if (expertOf[pair] == e) {
          slotToken[slot] = pair / topK;
          slotOf[pair] = slot++;
        }
      }
      if (slot > plan[e]) {
        plan[experts + 2 + plan[experts + 1]++] = e;
      }
    }
    plan[experts] = slot;
    slots.assign(slotOf, slotOf + tokens * topK);
  }
  std::vector<int32_t> plan, expertOf, slots;
};

} // namespace

TEST_CASE("experts_gate_up, experts_down and combine_residual make one MoE layer") {
  forEveryMatrixVariant([](const cpu::IsaLevel &level, WeightType type, int workers) {
    struct Shape {
      int64_t tokens, hidden, width, experts, topK;
    };
    for (Shape s : {Shape{1, 48, 40, 9, 3}, Shape{140, 42, 22, 5, 2}, Shape{9, 24, 6, 4, 4},
                    Shape{30, 70, 65, 13, 1}, Shape{2, 36, 22, 7, 7}}) {
      Routing routing(s.tokens, s.experts, s.topK);
      std::map<std::string, int64_t> params = {{"hidden", s.hidden},   {"expert_hidden", s.width},
                                               {"experts", s.experts}, {"top_k", s.topK},
                                               {"layout", 1},          {"dtype", static_cast<int64_t>(type)}};
      std::vector<Weights> gate, up, down;
      std::vector<void *> gates, ups, downs;
      for (int64_t e = 0; e < s.experts; ++e) {
        gate.push_back(Weights::matrix(type, s.width, s.hidden, 100 + e, 0.2f));
        up.push_back(Weights::matrix(type, s.width, s.hidden, 200 + e, 0.2f));
        down.push_back(Weights::matrix(type, s.hidden, s.width, 300 + e, 0.2f));
      }
      for (int64_t e = 0; e < s.experts; ++e) {
        gates.push_back(gate[e].packed(s.width));
        ups.push_back(up[e].packed(s.width));
        downs.push_back(down[e].packed(s.hidden));
      }
      int64_t pairs = s.tokens * s.topK;
      Floats xn = randomFloats(s.tokens * s.hidden, 1), x = randomFloats(s.tokens * s.hidden, 2);
      Floats mix = randomFloats(pairs, 3), h(pairs * s.width, NAN), y(pairs * s.hidden, NAN),
             out(x.size(), NAN);
      float scale = 0.5f;
      int32_t tokens = s.tokens;
      LoadedKernel({"experts_gate_up_test", "experts_gate_up", params}, level)
          .run({xn.data(), routing.plan.data(), gates.data(), ups.data(), h.data()}, {tokens}, workers);
      LoadedKernel({"experts_down_test", "experts_down", params}, level)
          .run({h.data(), routing.plan.data(), downs.data(), y.data()}, {tokens}, workers);
      LoadedKernel({"combine_residual_test",
                    "combine_residual",
                    {{"hidden", s.hidden}, {"experts", s.experts}, {"top_k", s.topK}}},
                   level)
          .run({y.data(), routing.plan.data(), mix.data(), x.data(), out.data()}, {tokens, bitsOf(scale)},
               workers);

      std::vector<double> expected(x.begin(), x.end());
      for (int64_t pair = 0; pair < pairs; ++pair) {
        int64_t t = pair / s.topK, e = routing.expertOf[pair];
        const float *row = &xn[t * s.hidden];
        std::vector<double> operands = asOperands({row, row + s.hidden}, level, type);
        Floats hidden(s.width);
        for (int64_t n = 0; n < s.width; ++n) {
          double g = 0, u = 0;
          for (int64_t j = 0; j < s.hidden; ++j) {
            g += operands[j] * gate[e][n * s.hidden + j];
            u += operands[j] * up[e][n * s.hidden + j];
          }
          hidden[n] = static_cast<float>(g / (1 + std::exp(-g)) * u);
        }
        std::vector<double> second = asOperands(hidden, level, type);
        for (int64_t n = 0; n < s.hidden; ++n) {
          double sum = 0;
          for (int64_t j = 0; j < s.width; ++j) {
            sum += second[j] * down[e][n * s.width + j];
          }
          expected[t * s.hidden + n] += scale * mix[pair] * sum;
        }
      }
      INFO("tokens " << s.tokens << " hidden " << s.hidden << " width " << s.width);
      CHECK(relativeError(out, expected) < operandTolerance(level, type));
    }
  });
}
