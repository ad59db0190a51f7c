// No number of a config is read in vain: another value changes some count, or the file is refused.
#include "compiler/Budget/Accounting.h"
#include "compiler/Import/HuggingFace.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

using namespace smelt;
using nlohmann::json;

namespace {

// Keys that say nothing about weights, FLOPs or caches.
const std::set<std::string> kWithoutCounts = {"bos_token_id",
                                              "boi_token_index",
                                              "block_size",
                                              "context_length",
                                              "ep_size",
                                              "eoi_token_index",
                                              "eos_token_id",
                                              "floor_scale",
                                              "image_token_index",
                                              "initial_context_length",
                                              "max_length",
                                              "max_position_embeddings",
                                              "mean_backprop_depth",
                                              "mm_tokens_per_image",
                                              "n_group",
                                              "original_max_position_embeddings",
                                              "pad_token_id",
                                              "padding_multiple",
                                              "pretraining_tp",
                                              "query_pre_attn_scalar",
                                              "rope_base",
                                              "rope_theta",
                                              "topk_group",
                                              "effective_expected_depth",
                                              "attn_scale"};

// Keys of a family that its other keys switch off in the fixture, or that its class reads without use.
const std::set<std::pair<std::string, std::string>> kSwitchedOff = {
    {"qwen2_moe", "max_window_layers"},  // use_sliding_window is false
    {"qwen2_moe", "sliding_window"},     //
    {"qwen2_moe", "intermediate_size"},  // no layer is dense
    {"qwen3_moe", "intermediate_size"},  //
    {"qwen3_next", "intermediate_size"}, //
    {"qwen3_moe", "max_window_layers"},  //
    {"qwen2", "max_window_layers"},      //
    {"qwen2", "sliding_window"},         //
    {"qwen3", "max_window_layers"},      //
    {"ouro", "max_window_layers"},       //
    {"llama4_text", "intermediate_size_mlp"},
    {"phimoe", "sliding_window"},           // no shorter than the longest sequence
    {"deepseek_v2", "num_key_value_heads"}, // latent attention has none
    {"deepseek_v3", "num_key_value_heads"},
    {"kimi_k2", "num_key_value_heads"},
    {"huginn_raven", "vocab_size"},     // the padded one counts
    {"loop-lm", "num_layers_in_stack"}, // the variant does not loop
    {"loop-lm", "num_stacks"},
};

std::vector<int64_t> numbersOf(const json &config) {
  const hf::ModelResult result = hf::parseConfig(config.dump(), "c.json", "m");
  if (!result) {
    return {};
  }
  const auto counted = budget::accountFor(result.model->architecture, budget::Context::causal(1 << 20));
  if (!counted) {
    return {};
  }
  const budget::Account &a = *counted.account;
  std::vector<int64_t> numbers = {
      a.total_params, a.stored_params, a.active_params_all, a.forward_flops_with_head,
      a.kv.slope,     a.kv.fixed,      a.executed_layers};
  for (const auto &window : a.kv.windows) {
    numbers.insert(numbers.end(), {window.positions, window.slope});
  }
  return numbers;
}

} // namespace

TEST_CASE("every size of a config counts for something") {
  const std::filesystem::path folder = std::string(SMELT_SOURCE_DIR) + "/tests/compiler/Import/configs";
  int changed = 0;
  for (const auto &file : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(file.path());
    const json config = json::parse(stream);
    const std::vector<int64_t> before = numbersOf(config);
    REQUIRE_FALSE(before.empty());
    const bool nested = config.contains("text_config");
    const json &text = nested ? config["text_config"] : config;
    for (const auto &[key, value] : text.items()) {
      if (!value.is_number_integer() || kWithoutCounts.contains(key) ||
          kSwitchedOff.contains({text["model_type"].get<std::string>(), key})) {
        continue;
      }
      json other = config;
      // Doubled, and one more for the positions of layers; either may be refused, both unchanged may not.
      (nested ? other["text_config"] : other)[key] = 2 * value.get<int64_t>();
      const bool doubled = numbersOf(other) != before;
      (nested ? other["text_config"] : other)[key] = value.get<int64_t>() + 1;
      CAPTURE(file.path().filename().string(), key);
      CHECK((doubled || numbersOf(other) != before));
      ++changed;
    }
  }
  CHECK(changed > 200);
}
