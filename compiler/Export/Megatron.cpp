// Arguments of Megatron-LM's pretrain scripts.
#include "compiler/Export/ExportFormats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace smelt::exporting {
namespace {

using spec::ModelSpec;
using spec::QkNorm;
using spec::RouterKind;

void addAttention(std::string &text, const ModelSpec &spec, std::vector<std::string> &notes) {
  const spec::Attention &attention = spec.attention;
  text += fmt::format("--num-attention-heads {}\n", attention.query_heads);
  if (attention.kv_heads != attention.query_heads) {
    text += fmt::format("--group-query-attention\n--num-query-groups {}\n", attention.kv_heads);
  }
  text += fmt::format("--kv-channels {}\n--position-embedding-type rope\n--rotary-base {}\n",
                      attention.head_dim, attention.rope_theta);
  text += "--disable-bias-linear\n";
  text += attention.qkv_bias ? "--add-qkv-bias\n" : "";
  text += attention.qk_norm == QkNorm::per_head ? "--qk-layernorm\n" : "";
  if (attention.qk_norm == QkNorm::full_width) {
    notes.push_back(
        "queries and keys are normalized over their full width; --qk-layernorm does single heads");
  }
}

void addExperts(std::string &text, const ModelSpec &spec, std::vector<std::string> &notes) {
  const spec::Moe &moe = *spec.moe;
  text += fmt::format("--num-experts {}\n--moe-router-topk {}\n--moe-ffn-hidden-size {}\n", moe.experts,
                      moe.top_k, moe.expert_hidden_size);
  if (hasDenseLayers(spec)) {
    text += fmt::format("--moe-layer-freq [{}]\n", fmt::join(moeLayers(spec), ","));
  }
  if (moe.shared_experts > 0) {
    text += fmt::format("--moe-shared-expert-intermediate-size {}\n", moe.sharedWidth());
  }
  text += fmt::format("--moe-router-score-function {}\n",
                      moe.router == RouterKind::sigmoid ? "sigmoid" : "softmax");
  if (moe.router == RouterKind::softmax && !moe.renormalize) {
    text += "--moe-router-pre-softmax\n"; // over all experts, and the chosen ones are left as they are
  }
  if (moe.router == RouterKind::sigmoid && !moe.renormalize && moe.top_k > 1) {
    notes.push_back("the sigmoid weights of the chosen experts are not renormalized; Megatron-LM does so");
  }
}

} // namespace

ExportResult megatronArguments(const ModelSpec &spec) {
  std::vector<std::string> notes = beyondOneStack(spec);
  std::string text =
      fmt::format("--num-layers {}\n--hidden-size {}\n", spec.physicalLayers(), spec.hidden_size);
  const int64_t dense = spec.mlp ? spec.mlp->hidden_size : spec.moe->expert_hidden_size;
  text += fmt::format("--ffn-hidden-size {}\n--swiglu\n--normalization RMSNorm\n--norm-epsilon {}\n", dense,
                      spec.norm_eps);
  addAttention(text, spec, notes);
  if (hasMoeLayers(spec)) {
    addExperts(text, spec, notes);
  }
  text += spec.tie_embeddings ? "" : "--untie-embeddings-and-output-weights\n";
  text += fmt::format("--vocab-size {}\n", spec.vocab_size);
  return {.text = fmt::format(
                      "# {}: the model arguments of Megatron-LM's pretraining scripts.\n{}", spec.name,
                      noteComments("NOT EXPRESSED, so these arguments alone train another model:", notes)) +
                  text,
          .status = SMELT_ok,
          .error = ""};
}

} // namespace smelt::exporting
