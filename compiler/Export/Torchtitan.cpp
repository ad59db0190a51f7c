// A torchtitan job file. torchtitan registers the sizes of a model as a flavor in Python; the table
// [model_args] has the fields of that registration.
#include "compiler/Export/ExportFormats.h"

#include <fmt/format.h>

namespace smelt::exporting {
namespace {

using spec::ModelSpec;
using spec::QkNorm;
using spec::RouterKind;

std::string boolText(bool value) { return value ? "true" : "false"; }

// A TOML string; names may hold quotes.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return result + "\"";
}

std::string modelArguments(const ModelSpec &spec, std::vector<std::string> &notes) {
  const spec::Attention &attention = spec.attention;
  std::string text =
      fmt::format("[model_args]\ndim = {}\nn_layers = {}\nn_heads = {}\nn_kv_heads = {}\n"
                  "head_dim = {}\nvocab_size = {}\nrope_theta = {}\nnorm_eps = {}\n",
                  spec.hidden_size, spec.physicalLayers(), attention.query_heads, attention.kv_heads,
                  attention.head_dim, spec.vocab_size, attention.rope_theta, spec.norm_eps);
  text += fmt::format("qk_norm = {}\nenable_weight_tying = {}\n", boolText(attention.qk_norm != QkNorm::none),
                      boolText(spec.tie_embeddings));
  if (spec.mlp) {
    text += fmt::format("hidden_dim = {}\n", spec.mlp->hidden_size);
  }
  if (attention.qk_norm == QkNorm::full_width) {
    notes.push_back("queries and keys are normalized over their full width; qk_norm does single heads");
  }
  if (attention.qkv_bias) {
    notes.push_back("queries, keys and values have biases");
  }
  return text;
}

std::string expertArguments(const ModelSpec &spec, std::vector<std::string> &notes) {
  const spec::Moe &moe = *spec.moe;
  std::string text =
      fmt::format("moe_enabled = true\nmoe_inter_dim = {}\n\n[model_args.moe_args]\n"
                  "num_experts = {}\nnum_shared_experts = {}\ntop_k = {}\n"
                  "score_func = \"{}\"\nroute_norm = {}\nscore_before_experts = false\n",
                  moe.expert_hidden_size, moe.experts, moe.shared_experts, moe.top_k,
                  moe.router == RouterKind::sigmoid ? "sigmoid" : "softmax", boolText(moe.renormalize));
  if (moe.shared_experts > 0 && moe.shared_expert_hidden_size != moe.expert_hidden_size) {
    notes.push_back(fmt::format("shared experts are {} wide; num_shared_experts takes them to be as wide as "
                                "the others",
                                moe.shared_expert_hidden_size));
  }
  if (hasDenseLayers(spec)) {
    notes.push_back("some layers are dense; here all have experts");
  }
  return text;
}

} // namespace

ExportResult torchtitanToml(const ModelSpec &spec) {
  std::vector<std::string> notes = beyondOneStack(spec);
  const bool moe = hasMoeLayers(spec);
  std::string arguments = modelArguments(spec, notes);
  if (moe) {
    arguments += expertArguments(spec, notes);
  }
  const std::string base = spec.attention.qk_norm == QkNorm::none && !moe ? "llama3" : "qwen3";
  if (base == "qwen3" && spec.attention.qk_norm == QkNorm::none) {
    notes.push_back("queries and keys are not normalized: qwen3 with qk_norm off");
  }
  return {.text = fmt::format(
              "# {}\n# torchtitan keeps sizes in flavors registered in Python: register the "
              "fields of [model_args] under this flavor.\n{}[model]\nname = \"{}\"\n"
              "flavor = {}\n\n{}",
              spec.name, noteComments("NOT EXPRESSED, so these fields alone train another model:", notes),
              base, quoted(spec.name), arguments),
          .status = SMELT_ok,
          .error = ""};
}

} // namespace smelt::exporting
