// How configs are read: aliases, defaults, what is refused.
#include "compiler/Import/HuggingFace.h"
#include "compiler/Spec/SpecValidator.h"
#include "tests/compiler/Import/HuggingFaceFixtures.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tuple>

using namespace smelt;

namespace {

// Keys of a config; the braces are added.
hf::ModelResult parse(const std::string &keys) { return hf::parseConfig("{" + keys + "}", "c.json", "m"); }

hf::Model read(const std::string &keys) {
  const hf::ModelResult result = parse(keys);
  INFO(result.diagnostics.text());
  REQUIRE(result);
  return *result.model;
}

std::string problems(const std::string &keys) {
  const hf::ModelResult result = parse(keys);
  CHECK_FALSE(result);
  CHECK(result.status == SMELT_spec);
  return result.diagnostics.text();
}

budget::Account account(const std::string &keys) { return tests::accountOf(read(keys), budget::Context()); }

const std::string kLlama =
    R"("model_type": "llama", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "intermediate_size": 96)";
const std::string kQwen3Moe = R"("model_type": "qwen3_moe", "vocab_size": 100, "hidden_size": 64,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
  "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2)";
const std::string kMixtral = R"("model_type": "mixtral", "vocab_size": 100, "hidden_size": 64,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
  "num_local_experts": 8, "num_experts_per_tok": 2)";

} // namespace

TEST_CASE("unknown model types are refused and the known ones named") {
  CHECK(problems(R"("model_type": "qwen3-moe")").find("did you mean 'qwen3_moe'?") != std::string::npos);
  CHECK(problems(R"("hidden_size": 1)").find("'model_type' is missing") != std::string::npos);
  for (std::string_view type : hf::modelTypes()) {
    CHECK(problems(R"("model_type": "none")").find(fmt::format("'{}'", type)) != std::string::npos);
  }
}

TEST_CASE("a key that is not understood is refused by name and place") {
  CHECK(problems(kLlama + ",\n  \"num_memory_slots\": 4") ==
        "c.json:3:3: 'num_memory_slots' = 4 is not understood in a llama config: it may change what is "
        "counted\n");
  // null is how these files leave things out.
  CHECK(parse(kLlama + R"(, "num_memory_slots": null)"));
  CHECK(problems(kQwen3Moe + R"(, "index_topk": 2048, "o_lora_rank": 4)").find("o_lora_rank") !=
        std::string::npos);
}

TEST_CASE("every missing size is named, none is guessed") {
  const std::string text = problems(R"("model_type": "mixtral")");
  for (const char *key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "num_local_experts", "num_experts_per_tok"}) {
    CHECK(text.find(fmt::format("'{}'", key)) != std::string::npos);
  }
}

TEST_CASE("values of the wrong kind are refused") {
  for (const char *value : {"0", "-4", "4.0", "\"4\"", "true", "[4]", "1e30", "99999999999999999999"}) {
    CAPTURE(value);
    CHECK(problems(fmt::format(R"("model_type": "llama", "vocab_size": 100, "hidden_size": 64,
      "num_hidden_layers": {}, "num_attention_heads": 4, "intermediate_size": 96)",
                               value))
              .find("'num_hidden_layers' must be a whole number") != std::string::npos);
  }
  CHECK(problems(kLlama + R"(, "attention_bias": 1)").find("must be true or false") != std::string::npos);
  CHECK(problems(kLlama + R"(, "num_key_value_heads": 3)").find("not a multiple") != std::string::npos);
  CHECK(problems(R"("model_type": "llama", "vocab_size": 100, "hidden_size": 65, "num_hidden_layers": 4,
  "num_attention_heads": 4, "intermediate_size": 96)")
            .find("there is no 'head_dim'") != std::string::npos);
}

TEST_CASE("broken files are refused") {
  for (const char *text : {"", "[]", "{", "nul", "{\"a\": }", "{} {}", "\xff"}) {
    CAPTURE(text);
    CHECK_FALSE(hf::parseConfig(text, "c.json", "m"));
  }
  CHECK(problems(kLlama + R"(, "hidden_size": 128)").find("'hidden_size' stands twice") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 100000; ++i) {
    deep += "{\"a\":";
  }
  CHECK(hf::parseConfig(deep, "c.json", "m").diagnostics.text().find("nested") != std::string::npos);
  CHECK(hf::readConfigFile("/nowhere/config.json").status == SMELT_io);
}

TEST_CASE("aliases are one key; two that disagree are refused") {
  std::string other = kMixtral;
  other.replace(other.find("num_local_experts"), 17, "num_experts");
  CHECK(account(other).total_params == account(kMixtral).total_params);
  CHECK(parse(kMixtral + R"(, "num_experts": 8)"));
  CHECK(problems(kMixtral + R"(, "num_experts": 16)").find("two names of one thing") != std::string::npos);
}

TEST_CASE("head_dim is its own key, KV heads default to all") {
  const budget::Account plain = account(kLlama);
  CHECK(plain.kv_elements_per_token == 4 * 2 * 64);
  CHECK(account(kLlama + R"(, "head_dim": 32)").kv_elements_per_token == 2 * plain.kv_elements_per_token);
  CHECK(account(kLlama + R"(, "num_key_value_heads": 1)").kv_elements_per_token ==
        plain.kv_elements_per_token / 4);
}

TEST_CASE("biases that no number shows are counted") {
  const int64_t plain = account(kLlama).total_params;
  CHECK(account(kLlama + R"(, "attention_bias": true)").total_params == plain + 4 * 4 * 64);
  CHECK(account(kLlama + R"(, "mlp_bias": true)").total_params == plain + 4 * (2 * 96 + 64));
  std::string qwen = kLlama;
  qwen.replace(qwen.find("llama"), 5, "qwen2");
  CHECK(account(qwen).total_params == plain + 4 * 3 * 64);
}

TEST_CASE("a window counts only where use_sliding_window says so") {
  std::string qwen = kLlama;
  qwen.replace(qwen.find("llama"), 5, "qwen2");
  const auto windows = [&](const std::string &keys) { return account(qwen + keys).kv.windows; };
  CHECK(windows(R"(, "sliding_window": 16, "max_window_layers": 1, "use_sliding_window": false)").empty());
  const auto some = windows(R"(, "sliding_window": 16, "max_window_layers": 1, "use_sliding_window": true)");
  REQUIRE(some.size() == 1);
  CHECK(some.front().positions == 16);
  CHECK(some.front().slope == 3 * 2 * 64);
  // null is none, a missing key the class's default.
  std::string mistral = kLlama;
  mistral.replace(mistral.find("llama"), 5, "mistral");
  CHECK(account(mistral + R"(, "sliding_window": null)").kv.windows.empty());
  CHECK(account(mistral).kv.windows.front().positions == 4096);
}

TEST_CASE("layers are mixtures by step and list") {
  const int64_t dense = 3 * 64 * 96;
  const int64_t mixture = 64 * 8 + 8 * 3 * 64 * 32;
  const int64_t all = account(kQwen3Moe).total_params;
  // Layers 1 and 3, counting from 0.
  CHECK(account(kQwen3Moe + R"(, "decoder_sparse_step": 2)").total_params == all - 2 * (mixture - dense));
  CHECK(account(kQwen3Moe + R"(, "mlp_only_layers": [0, 3, 7])").total_params == all - 2 * (mixture - dense));
  const auto groups =
      read(kQwen3Moe + R"(, "decoder_sparse_step": 2, "mlp_only_layers": [3])").architecture.groups;
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].layers == 1);
  CHECK(std::holds_alternative<budget::ExpertMlp>(groups[1].layer.ffn));
  CHECK(groups[2].layers == 2);
}

TEST_CASE("layer types must be known and as many as layers") {
  std::string qwen = kLlama;
  qwen.replace(qwen.find("llama"), 5, "qwen3");
  CHECK(problems(qwen + R"(, "layer_types": ["full_attention"])").find("has 1 entries") != std::string::npos);
  CHECK(problems(qwen + R"(, "layer_types": ["full_attention", "full_attention", "full_attention", "mamba"])")
            .find("\"mamba\"") != std::string::npos);
}

TEST_CASE("the latent rank of queries may be null but not missing") {
  const std::string keys =
      R"("model_type": "deepseek_v3", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 96, "moe_intermediate_size": 32, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1, "kv_lora_rank": 16,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8)";
  CHECK(problems(keys).find("'q_lora_rank' is missing") != std::string::npos);
  CHECK(account(keys + R"(, "q_lora_rank": null)").kv_elements_per_token == 2 * (16 + 4));
  CHECK(problems(keys + R"(, "q_lora_rank": 8, "topk_method": "best")").find("'topk_method'") !=
        std::string::npos);
}

TEST_CASE("nested text configs are read and the rest left alone") {
  const hf::Model model = tests::readFixture("llama-4-scout");
  CHECK(model.model_type == "llama4_text");
  CHECK(model.notes.front() == "only the text model is counted");
  // Three of four layers attend within chunks of 8192.
  CHECK(tests::accountOf(model, budget::Context()).kv.windows ==
        std::vector<budget::KvLaw::Window>{{8192, 36 * 2 * 1024}});
}

TEST_CASE("a text model counts the same within every wrapper") {
  constexpr std::tuple<const char *, const char *, const char *> wrappers[] = {
      {"qwen3_vl_moe", "qwen3-30b-a3b", "qwen3_vl_moe_text"},
      {"qwen3_vl", "qwen3-32b", "qwen3_vl_text"},
      {"kimi_vl", "deepseek-v3", "deepseek_v3"},
      {"kimi_k25", "kimi-k2", "kimi_k2"},
      {"kimi_k25", "deepseek-v3", "deepseek_v3"},
      {"mistral3", "mistral-7b", "mistral"},
  };
  for (const auto &[wrapper, fixture, type] : wrappers) {
    CAPTURE(wrapper, type);
    const hf::Model alone = tests::readFixture(fixture);
    nlohmann::json text = nlohmann::json::parse(alone.config);
    text["model_type"] = type;
    nlohmann::json outer = {{"model_type", wrapper},
                            {"tie_word_embeddings", text["tie_word_embeddings"]},
                            {"image_token_id", 5},
                            {"vision_config", {{"depth", 27}, {"hidden_size", 1152}}}};
    text.erase("tie_word_embeddings"); // where the published files have it: outside
    if (text["rope_scaling"].is_null()) {
      text["rope_scaling"] = {{"mrope_interleaved", true}, {"mrope_section", {24, 20, 20}}};
    }
    outer["text_config"] = text;
    const hf::ModelResult nested = hf::parseConfig(outer.dump(), "c.json", alone.architecture.name);
    INFO(nested.diagnostics.text());
    REQUIRE(nested);
    CHECK(nested.model->architecture == alone.architecture);
    CHECK(nested.model->model_type == type);
    // Keys of the text model are refused there, too.
    outer["text_config"]["num_memory_slots"] = 4;
    CHECK(hf::parseConfig(outer.dump(2), "c.json", "m").diagnostics.text().find("'num_memory_slots' = 4") !=
          std::string::npos);
  }
}

// ml-ryanlee/looped-16x2-32L-d640-1e18-a100: 0.1436 B parameters, 0.583 GB in float32. Its d_ff follows from
// the family's rule, 8/3 of d_model rounded up to 64, which gives the published 2752 of 1024.
TEST_CASE("a looped loop-lm model has the published size") {
  const budget::Account model = account(
      R"("model_type": "loop-lm", "model_variant": "looped", "vocab_size": 50257, "d_model": 640,
    "num_heads": 10, "d_ff": 1728, "num_experts": 8, "num_active": 2, "num_layers": 32,
    "num_layers_in_stack": 16, "num_stacks": 2)");
  CHECK(model.executed_layers == 32);
  CHECK(static_cast<double>(model.total_params) / 1e9 == Approx(0.1436).margin(5e-5));
  // The file has RoPE's rotations of every layer, too: 1024 positions of 32 2 x 2 matrices.
  const int64_t rotations = 16 * 1024 * 32 * 4;
  CHECK(static_cast<double>(4 * (model.total_params + rotations)) / 1e9 == Approx(0.583).margin(5e-4));
}

TEST_CASE("the variant says whether a loop-lm model loops") {
  const std::string keys =
      R"("model_type": "loop-lm", "vocab_size": 100, "d_model": 64, "num_heads": 4, "d_ff": 96,
    "num_experts": 8, "num_active": 2, "num_layers": 6, "num_layers_in_stack": 2, "num_stacks": 3)";
  const auto variant = [&](const char *name) {
    return account(keys + fmt::format(R"(, "model_variant": "{}")", name));
  };
  CHECK(variant("base").executed_layers == 6);
  CHECK(variant("moe").non_embedding_params == 6 * (4 * 64 * 64 + 64 * 8 + 8 * 3 * 64 * 48));
  CHECK(variant("looped").non_embedding_params == 2 * (4 * 64 * 64 + 3 * 64 * 96));
  CHECK(variant("looped-moe").executed_layers == 6);
  CHECK(problems(keys + R"(, "model_variant": "foo")").find("model_variant") != std::string::npos);
}

TEST_CASE("switches that change the weights unknowably are refused") {
  const std::string nanbeige = "\"model_type\": \"nanbeige\"" + kLlama.substr(kLlama.find(", \"vocab"));
  CHECK(account(nanbeige + R"(, "num_loops": 2, "loop_share_kv": false)").executed_layers == 8);
  CHECK(problems(nanbeige + R"(, "loop_share_kv": true)").find("'loop_share_kv' is on") != std::string::npos);
}

TEST_CASE("what a spec can say becomes one") {
  const hf::Model qwen = tests::readFixture("qwen3-30b-a3b");
  const hf::SpecConversion conversion = hf::toSpec(qwen);
  REQUIRE(conversion.spec);
  CHECK(conversion.spec->attention.qk_norm == spec::QkNorm::per_head);
  CHECK(conversion.spec->attention.rope_theta == 1e6);
  CHECK(conversion.spec->moe->renormalize);
  for (const char *name : {"qwen3-30b-a3b", "mixtral-8x7b", "olmoe-1b-7b", "llama-2-7b", "llama-3-8b",
                           "qwen1.5-72b", "qwen3-32b", "qwen3-235b-a22b"}) {
    CAPTURE(name);
    const hf::Model model = tests::readFixture(name);
    const hf::SpecConversion converted = hf::toSpec(model);
    CAPTURE(converted.inexpressible);
    REQUIRE(converted.spec);
    CHECK(spec::validate(*converted.spec).empty());
    // The spec counts what the config counts.
    const auto same = budget::accountFor(budget::architectureOf(*converted.spec));
    CHECK(same.account->total_params == tests::accountOf(model, {}).total_params);
    CHECK(same.account->forward_flops == tests::accountOf(model, {}).forward_flops);
  }
}

TEST_CASE("what no spec can say is listed, all of it") {
  const auto list = [](const char *name) { return hf::toSpec(tests::readFixture(name)).inexpressible; };
  CHECK(list("deepseek-v2-lite") ==
        std::vector<std::string>{"scaled RoPE (rope_scaling)", "multi-head latent attention (kv_lora_rank)"});
  CHECK(list("qwen1.5-moe-a2.7b") == std::vector<std::string>{"a gate on the shared experts"});
  for (const char *name :
       {"deepseek-v3", "gpt-oss-20b", "qwen3-next-80b-a3b", "phi-3.5-moe", "glm-4.5-air", "kimi-k2",
        "granite-3.1-3b-a800m", "llama-4-scout", "mistral-7b", "gemma-7b", "gemma-2-9b", "gemma-3-4b",
        "ouro-1.4b", "huginn-0125", "nanbeige4.2-3b", "scaled-moe"}) {
    CAPTURE(name);
    CHECK_FALSE(list(name).empty());
  }
}
