#include "compiler/Spec/WeightTable.h"
#include "compiler/Spec/SpecReader.h"
#include "tests/compiler/Spec/SpecText.h"
#include "tests/support/SpecGenerator.h"

#include <catch2/catch.hpp>
#include <set>

using namespace smelt;
using namespace smelt::spec;

namespace {

// "name [shape] xN", N tensors.
std::string line(const WeightDecl &weight) {
  std::string shape;
  for (int64_t dim : weight.shape) {
    shape += (shape.empty() ? "" : ",") + std::to_string(dim);
  }
  return weight.tensorName(weight.first_layer, 0) + " [" + shape + "] x" + std::to_string(weight.tensors());
}

} // namespace

TEST_CASE("every tensor of a full spec, in file order") {
  std::string text;
  for (const WeightDecl &weight : weightTable(*parseSpec(tests::kFullSpec, "s").spec)) {
    text += line(weight) + "\n";
  }
  CHECK(text == R"(model.embed_tokens.weight [100,16] x1
model.layers.0.input_layernorm.weight [16] x2
model.layers.0.self_attn.q_proj.weight [72,16] x2
model.layers.0.self_attn.k_proj.weight [36,16] x2
model.layers.0.self_attn.v_proj.weight [36,16] x2
model.layers.0.self_attn.q_proj.bias [72] x2
model.layers.0.self_attn.k_proj.bias [36] x2
model.layers.0.self_attn.v_proj.bias [36] x2
model.layers.0.self_attn.q_norm.weight [12] x2
model.layers.0.self_attn.k_norm.weight [12] x2
model.layers.0.self_attn.o_proj.weight [16,72] x2
model.layers.0.post_attention_layernorm.weight [16] x2
model.layers.0.mlp.gate.weight [5,16] x2
model.layers.0.mlp.experts.0.gate_proj.weight [8,16] x10
model.layers.0.mlp.experts.0.up_proj.weight [8,16] x10
model.layers.0.mlp.experts.0.down_proj.weight [16,8] x10
model.layers.0.mlp.shared_experts.gate_proj.weight [14,16] x2
model.layers.0.mlp.shared_experts.up_proj.weight [14,16] x2
model.layers.0.mlp.shared_experts.down_proj.weight [16,14] x2
model.layers.2.input_layernorm.weight [16] x1
model.layers.2.self_attn.q_proj.weight [32,16] x1
model.layers.2.self_attn.k_proj.weight [32,16] x1
model.layers.2.self_attn.v_proj.weight [32,16] x1
model.layers.2.self_attn.q_norm.weight [32] x1
model.layers.2.self_attn.k_norm.weight [32] x1
model.layers.2.self_attn.o_proj.weight [16,32] x1
model.layers.2.post_attention_layernorm.weight [16] x1
model.layers.2.mlp.gate_proj.weight [24,16] x1
model.layers.2.mlp.up_proj.weight [24,16] x1
model.layers.2.mlp.down_proj.weight [16,24] x1
model.norm.weight [16] x1
)");
}

TEST_CASE("an untied head is a tensor") {
  const auto table = weightTable(*parseSpec(tests::edited("tie_embeddings = true", ""), "s").spec);
  CHECK(line(table.back()) == "lm_head.weight [100,16] x1");
}

TEST_CASE("layers and experts stand where the pattern has them") {
  const WeightDecl weight{.role = WeightRole::expert_gate,
                          .name = "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
                          .shape = {1, 1},
                          .segment = 0,
                          .first_layer = 3,
                          .layers = 2,
                          .experts = 20};
  CHECK(weight.tensorName(3, 17) == "model.layers.3.mlp.experts.17.gate_proj.weight");
  CHECK(weight.tensors() == 40);
}

TEST_CASE("names are unique and layers are physical") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const ModelSpec spec = tests::generateSpec(seed);
    std::set<std::string> names;
    int64_t tensors = 0;
    for (const WeightDecl &weight : weightTable(spec)) {
      CHECK(weight.first_layer + weight.layers <= spec.physicalLayers());
      CHECK((weight.segment >= 0) == (weight.layers > 0));
      for (int64_t layer = 0; layer < std::max<int64_t>(1, weight.layers); ++layer) {
        for (int64_t expert = 0; expert < std::max<int64_t>(1, weight.experts); ++expert) {
          names.insert(weight.tensorName(weight.first_layer + layer, expert));
        }
      }
      tensors += weight.tensors();
    }
    CHECK(static_cast<int64_t>(names.size()) == tensors);
  }
}

TEST_CASE("roles have names") {
  CHECK(std::string(weightRoleName(WeightRole::embedding)) == "embedding");
  CHECK(std::string(weightRoleName(WeightRole::shared_down)) == "shared_down");
  CHECK(std::string(weightRoleName(WeightRole::lm_head)) == "lm_head");
}

TEST_CASE("a tensor's name tells its role, in any layer and expert") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const WeightDecl &weight : weightTable(tests::generateSpec(seed))) {
      INFO(weight.name);
      CHECK(weightRoleOf(weight.tensorName(weight.first_layer, 0)) == weight.role);
      CHECK(weightRoleOf(weight.tensorName(1234, 567)) == weight.role);
    }
  }
  for (const char *name : {"", "model.norm", "model.norm.weights", "model.layers..mlp.gate.weight",
                           "model.layers.x.mlp.gate.weight", "model.layers.1.mlp.gate.weight_scale",
                           "model.layers.1.mlp.experts.2.gate_proj", "xlm_head.weight"}) {
    INFO(name);
    CHECK(!weightRoleOf(name));
  }
}

TEST_CASE("matrices are quantised, but for those that are looked up or decide") {
  for (const WeightDecl &weight : weightTable(*parseSpec(tests::kFullSpec, "s").spec)) {
    const bool matrix = weight.shape.size() == 2;
    const bool kept = weight.role == WeightRole::embedding || weight.role == WeightRole::router;
    INFO(weight.name);
    CHECK(isQuantized(weight.role) == (matrix && !kept));
  }
}
