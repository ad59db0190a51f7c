// Models that visit layers more than once: Ouro, Huginn, Nanbeige, and the loop-lm models of scaled-moe.
#include "compiler/Import/HuggingFaceFamily.h"

#include <fmt/format.h>

namespace smelt::hf {
namespace {

using budget::DenseMlp;
using budget::ExpertMlp;
using budget::GroupedAttention;
using budget::Layer;
using budget::Reach;

// The whole stack, `total_ut_steps` times. The exit gate is read after every visit and its result unused at
// the published threshold of 1, so it has weights and no FLOPs.
void readOuro(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  const int64_t visits = reader.sizeUpTo({"total_ut_steps"}, kMaxVisits);
  const bool windows = reader.flag({"use_sliding_window"}, false);
  const auto window = reader.optionalSize({"sliding_window"});
  const int64_t full_layers = reader.count({"max_window_layers"}, 28);
  const int64_t longest = readLongest(reader);
  const auto types = readLayerTypes(reader, trunk.layers, false, [&](int64_t i) {
    return LayerType{.reach = windows && i >= full_layers ? Reach::sliding : Reach::full};
  });
  const GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  const DenseMlp mlp{.width = reader.size({"intermediate_size"})};
  reader.ignore({"early_exit_threshold", "early_exit_step", "chunk_size"});
  beyondSpec(model, "four norms a layer");
  beyondSpec(model, "the exit gate and the final norm after every visit");
  model.architecture.adapters = {{.name = "exit gate",
                                  .inputs = trunk.hidden,
                                  .outputs = 1,
                                  .bias = true,
                                  .executions = 0,
                                  .looped = true}};
  model.architecture.groups = buildLayers(
      trunk.layers,
      [&](int64_t i) {
        Layer layer{.attention = attention, .ffn = mlp, .norm_vectors = 4};
        setReach(layer, windows ? types[static_cast<size_t>(i)].reach : Reach::full, window.value_or(0),
                 longest);
        return layer;
      },
      visits, true);
}

// Words of Huginn's config that stand for other weights than those counted here.
void requireWord(ConfigReader &reader, std::string_view key, std::string_view word) {
  const std::string value = reader.word({key}, word);
  if (value != word) {
    reader.problem(key, fmt::format("'{}' = \"{}\" is not understood; only \"{}\" is", key, value, word));
  }
}

Trunk readHuginnTrunk(ConfigReader &reader, Model &model) {
  Trunk trunk;
  trunk.hidden = model.architecture.hidden_size = reader.size({"n_embd"});
  trunk.heads = reader.size({"n_heads"});
  trunk.kv_heads = reader.size({"num_key_value_heads"}, trunk.heads);
  // The embedding has the padded rows.
  const int64_t vocabulary = reader.size({"vocab_size"});
  model.architecture.vocab_size = reader.size({"padded_vocab_size"}, vocabulary);
  model.architecture.tied = reader.flag({"tie_embeddings", "tie_word_embeddings"}, true);
  model.norm_eps = reader.number({"norm_eps"}, 1e-6);
  model.rope_theta = reader.number({"rope_base"}, 50000);
  readDtype(reader, model);
  return trunk;
}

// Prelude, a recurrent block visited `mean_recurrence` times behind a 2n -> n adapter, coda.
void readHuginn(ConfigReader &reader, Model &model) {
  const Trunk trunk = readHuginnTrunk(reader, model);
  const int64_t visits = reader.sizeUpTo({"mean_recurrence"}, kMaxVisits);
  const int64_t prelude = reader.count({"n_layers_in_prelude"}, 0);
  const int64_t core = reader.sizeUpTo({"n_layers_in_recurrent_block"}, ConfigReader::kMaxLayers);
  const int64_t coda = reader.count({"n_layers_in_coda"}, 0);
  const int64_t layers = reader.size({"n_layers"}, prelude + core + coda);
  if (layers != prelude + core + coda) {
    reader.problem("n_layers",
                   fmt::format("'n_layers' = {} is not the sum of prelude, recurrent block and coda, {}",
                               layers, prelude + core + coda));
  }
  GroupedAttention attention = groupedAttention(trunk, readHeadDim(reader, trunk));
  attention.query_bias = attention.key_bias = reader.flag({"qk_bias"}, false);
  requireWord(reader, "block_class_name", "SandwichBlock");
  requireWord(reader, "mlp_class_name", "GatedMLP");
  requireWord(reader, "norm_class_name", "RMSNorm_llama");
  requireWord(reader, "injection_type", "linear");
  refuseSwitchedOn(reader, {"bias"});
  reader.ignore({"mean_backprop_depth", "sampling_scheme", "state_init", "block_size", "padding_multiple",
                 "nonlin_name", "effective_expected_depth", "init_values", "init_strategy", "init_orthogonal",
                 "architecture_class_name", "activation_checkpoint_impl", "test_time_noise",
                 "test_time_noise_type"});
  beyondSpec(model, "the adapter between state and input");
  beyondSpec(model, "four norms a layer");
  const Layer layer{.attention = attention,
                    .ffn = DenseMlp{.width = reader.size({"intermediate_size"})},
                    .norm_vectors = 4};
  budget::Architecture &a = model.architecture;
  a.adapters = {{.name = "adapter",
                 .inputs = 2 * trunk.hidden,
                 .outputs = trunk.hidden,
                 .bias = false,
                 .executions = visits,
                 .looped = true}};
  if (prelude > 0) {
    a.groups.push_back({.layer = layer, .layers = prelude});
  }
  a.groups.push_back({.layer = layer, .layers = core, .visits = visits, .looped = true});
  if (coda > 0) {
    a.groups.push_back({.layer = layer, .layers = coda});
  }
}

// Llama's layers, the whole stack `num_loops` times.
void readNanbeige(ConfigReader &reader, Model &model) {
  const Trunk trunk = readTrunk(reader, model);
  const auto channels = reader.optionalSize({"head_dim", "kv_channels"});
  GroupedAttention attention = groupedAttention(trunk, channels ? *channels : readHeadDim(reader, trunk));
  const bool bias = reader.flag({"attention_bias"}, false);
  setBias(attention, bias, bias);
  const DenseMlp mlp{.width = reader.size({"intermediate_size"}), .bias = reader.flag({"mlp_bias"}, false)};
  const int64_t visits = reader.has({"num_loops"}) ? reader.sizeUpTo({"num_loops"}, kMaxVisits) : 1;
  if (!reader.flag({"skip_loop_final_norm"}, false) && visits > 1) {
    beyondSpec(model, "the final norm between visits (skip_loop_final_norm = false)");
  }
  refuseSwitchedOn(reader, {"qk_layernorm", "emb_neighbor_num", "insert_ngram_layer_idx",
                            "ngram_insert_all_layers", "enable_double_loop_split", "loop_middle_layers",
                            "loop_share_kv", "enable_hyper_connection", "enable_mhc", "enable_h_res_identity",
                            "enable_depth_attention"});
  reader.ignore({"loop_loss_weights"});
  model.architecture.groups = {{.layer = {.attention = attention, .ffn = mlp},
                                .layers = trunk.layers,
                                .visits = visits,
                                .looped = visits > 1}};
}

// `model_variant` says whether the model loops and whether it has experts: files of every variant carry all
// keys. Experts are d_ff / num_active wide, and the norms have no weights.
void readLoopLm(ConfigReader &reader, Model &model) {
  const std::string variant = reader.word({"model_variant"}, "");
  const bool moe = variant == "moe" || variant == "looped-moe";
  const bool looped = variant == "looped" || variant == "looped-moe";
  if (!moe && !looped && variant != "base") {
    reader.problem("model_variant",
                   fmt::format("'model_variant' = \"{}\" is not understood; it must be \"base\", "
                               "\"looped\", \"moe\" or \"looped-moe\"",
                               variant));
  }
  Trunk trunk;
  budget::Architecture &a = model.architecture;
  trunk.hidden = a.hidden_size = reader.size({"d_model"});
  trunk.heads = trunk.kv_heads = reader.size({"num_heads"});
  a.vocab_size = reader.size({"vocab_size"});
  a.tied = reader.flag({"weight_tying"}, false);
  a.final_norm_vectors = 0;
  model.rope_theta = reader.number({"rope_theta"}, 10000);
  readDtype(reader, model);
  Layer layer{.attention = groupedAttention(trunk, readHeadDim(reader, trunk)), .norm_vectors = 0};
  const int64_t width = reader.size({"d_ff"});
  const int64_t experts = reader.size({"num_experts"}, 1);
  const int64_t active = reader.size({"num_active"}, 1);
  if (moe && active > experts) {
    reader.problem("num_active", "'num_active' is more than 'num_experts'");
  }
  if (moe) {
    layer.ffn = ExpertMlp{.experts = experts, .top_k = active, .width = std::max<int64_t>(1, width / active)};
  } else {
    layer.ffn = DenseMlp{.width = width};
  }
  reader.ignore({"num_layers", "num_layers_in_stack", "num_stacks", "context_length", "lb_loss_factor",
                 "lz_loss_factor", "width_ratio"});
  beyondSpec(model, "norms without weights");
  beyondSpec(model, "an attention scale of 1 / head_dim");
  a.groups = {
      {.layer = layer,
       .layers = reader.sizeUpTo({looped ? "num_layers_in_stack" : "num_layers"}, ConfigReader::kMaxLayers),
       .visits = looped ? reader.sizeUpTo({"num_stacks"}, kMaxVisits) : 1,
       .looped = looped}};
}

} // namespace

std::span<const Family> loopedFamilies() {
  static constexpr Family families[] = {
      {"ouro", readOuro}, {"huginn_raven", readHuginn}, {"nanbeige", readNanbeige}, {"loop-lm", readLoopLm}};
  return families;
}

} // namespace smelt::hf
