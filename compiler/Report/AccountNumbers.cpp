#include "compiler/Report/AccountNumbers.h"

#include <fmt/format.h>

namespace smelt::report {
namespace {

std::string attentionText(const budget::GroupedAttention &a) {
  std::string text =
      fmt::format("{} query heads and {} KV heads of {}", a.query_heads, a.kv_heads, a.head_dim);
  return a.output_gate ? text + ", gated" : text;
}

std::string attentionText(const budget::LatentAttention &a) {
  return fmt::format("{} latent heads of {} + {} and {}, a cache of {} + {}", a.heads, a.nope_dim, a.rope_dim,
                     a.value_dim, a.kv_rank, a.rope_dim);
}

std::string attentionText(const budget::LinearAttention &a) {
  return fmt::format("linear attention of {} key heads of {} and {} value heads of {}", a.key_heads,
                     a.key_dim, a.value_heads, a.value_dim);
}

std::string ffnText(const budget::DenseMlp &mlp) { return fmt::format("MLP of {}", mlp.width); }

std::string ffnText(const budget::ExpertMlp &mlp) {
  std::string text = fmt::format("{} experts of {}, {} of them used", mlp.experts, mlp.width, mlp.top_k);
  return mlp.shared_width > 0 ? text + fmt::format(", shared ones of {}", mlp.shared_width) : text;
}

std::string reachText(const budget::Layer &layer) {
  switch (layer.reach) {
  case budget::Reach::full:
    return "";
  case budget::Reach::sliding:
    return fmt::format(" within {}", layer.window);
  case budget::Reach::chunked:
    return fmt::format(" in chunks of {}", layer.window);
  }
  return "";
}

} // namespace

std::vector<std::string> describeLayers(const budget::Architecture &architecture) {
  // Alternating layers come as many short runs: alike ones are put together, in order of appearance.
  std::vector<std::pair<budget::LayerGroup, int64_t>> kinds;
  for (const budget::LayerGroup &group : architecture.groups) {
    bool found = false;
    for (auto &[kind, layers] : kinds) {
      if (kind.layer == group.layer && kind.visits == group.visits) {
        layers += group.layers;
        found = true;
        break;
      }
    }
    if (!found) {
      kinds.emplace_back(group, group.layers);
    }
  }
  std::vector<std::string> lines;
  for (const auto &[kind, layers] : kinds) {
    const std::string attention =
        std::visit([](const auto &a) { return attentionText(a); }, kind.layer.attention);
    const std::string ffn = std::visit([](const auto &f) { return ffnText(f); }, kind.layer.ffn);
    lines.push_back(fmt::format("{} layer{}{}: {}{}; {}", layers, layers == 1 ? "" : "s",
                                kind.visits == 1 ? "" : fmt::format(", {} visits", kind.visits), attention,
                                reachText(kind.layer), ffn));
  }
  return lines;
}

std::vector<NamedCount> budgetNumbers(const budget::Account &a) {
  return {
      {"non_embedding_params", "non-embedding parameters", a.non_embedding_params},
      {"total_params", "total parameters", a.total_params},
      {"active_params", "active parameters", a.active_params},
      {"training_flops_per_token", "training FLOPs per token", a.training_flops},
      {"forward_flops_per_token", "forward FLOPs per token", a.forward_flops},
      {"kv_elements_per_token", "KV elements per token", a.kv_elements_per_token},
      {"executed_layers", "executed layers", a.executed_layers},
  };
}

std::vector<NamedCount> detailNumbers(const budget::Account &a) {
  return {
      {"non_embedding_params_with_final_norm", "non-embedding, with the final norm",
       a.non_embedding_params_with_final_norm},
      {"active_params_all", "active, both embeddings included", a.active_params_all},
      {"active_params_without_input_embedding", "active, without the input embedding",
       a.active_params_without_input_embedding},
      {"active_params_without_embeddings", "active, without embedding and head",
       a.active_params_without_embeddings},
      {"stored_params", "stored parameters", a.stored_params},
      {"mtp_params", "multi-token prediction parameters", a.mtp_params},
      {"mtp_active_params", "multi-token prediction, active", a.mtp_active_params},
      {"mtp_forward_flops_per_token", "multi-token prediction, forward FLOPs", a.mtp_forward_flops},
      {"head_flops_per_token", "head FLOPs per token", a.head_flops},
      {"forward_flops_with_head_per_token", "forward FLOPs with the head", a.forward_flops_with_head},
      {"training_flops_with_head_per_token", "training FLOPs with the head", a.training_flops_with_head},
      {"loop_flops_per_visit", "forward FLOPs of one visit of the loop", a.loop_flops_per_visit},
  };
}

std::vector<std::pair<std::string_view, int64_t>> weightBytes(const budget::Account &account) {
  std::vector<std::pair<std::string_view, int64_t>> result;
  for (const auto &[name, bytes] :
       {std::pair<std::string_view, int64_t>{"float32", 4}, {"bfloat16", 2}, {"int8", 1}}) {
    if (const auto total = (budget::CheckedInt(account.total_params) * bytes).value()) {
      result.emplace_back(name, *total);
    }
  }
  result.emplace_back("int4", account.total_params / 2 + account.total_params % 2);
  return result;
}

std::optional<int64_t> kvBytesPerToken(const CountedModel &model) {
  return (budget::CheckedInt(model.account.kv_elements_per_token) * model.bytes_per_weight).value();
}

} // namespace smelt::report
