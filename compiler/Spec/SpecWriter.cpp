#include "compiler/Spec/SpecWriter.h"

#include "compiler/Spec/SpecNames.h"

#include <fmt/format.h>
#include <iterator>

namespace smelt::spec {
namespace {

// Shortest text that reads back as the same double, recognisable as a float; 1e-6 rather than 1e-06.
std::string number(double value) {
  std::string text = fmt::format("{}", value);
  const size_t exponent = text.find("e-0");
  if (exponent != std::string::npos) {
    text.erase(exponent + 2, 1);
  }
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string tomlString(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\u{:04x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

class Writer {
public:
  std::string write(const ModelSpec &spec, std::string_view comment) {
    writeComment(comment);
    writeModel(spec);
    writeAttention(spec.attention);
    if (spec.moe) {
      writeMoe(*spec.moe);
    }
    if (spec.mlp) {
      table("[mlp]");
      line("hidden_size", spec.mlp->hidden_size);
    }
    for (const Segment &segment : spec.segments) {
      writeSegment(segment, spec);
    }
    return std::move(out);
  }

private:
  void table(std::string_view header) { out += fmt::format("{}{}\n", out.empty() ? "" : "\n", header); }
  void line(std::string_view key, int64_t value) { raw(key, fmt::format("{}", value)); }
  void line(std::string_view key, double value) { raw(key, number(value)); }
  void line(std::string_view key, bool value) { raw(key, value ? "true" : "false"); }
  void line(std::string_view key, std::string_view word) { raw(key, tomlString(word)); }
  void raw(std::string_view key, std::string_view value) { out += fmt::format("{} = {}\n", key, value); }

  void writeComment(std::string_view comment) {
    while (!comment.empty()) {
      const size_t end = std::min(comment.find('\n'), comment.size());
      out += fmt::format("#{}{}\n", end ? " " : "", comment.substr(0, end));
      comment.remove_prefix(std::min(end + 1, comment.size()));
    }
  }

  void writeModel(const ModelSpec &spec) {
    table("[model]");
    line("name", std::string_view(spec.name));
    line("vocab_size", spec.vocab_size);
    line("hidden_size", spec.hidden_size);
    line("norm_eps", spec.norm_eps);
    line("tie_embeddings", spec.tie_embeddings);
  }

  void writeAttention(const Attention &attention) {
    table("[attention]");
    writeAttentionDifferences(attention, nullptr);
  }

  // The keys whose value differs from base; all of them without a base.
  void writeAttentionDifferences(const Attention &attention, const Attention *base) {
    const auto differs = [&](auto field) { return !base || attention.*field != base->*field; };
    if (differs(&Attention::query_heads)) {
      line("query_heads", attention.query_heads);
    }
    if (differs(&Attention::kv_heads)) {
      line("kv_heads", attention.kv_heads);
    }
    if (differs(&Attention::head_dim)) {
      line("head_dim", attention.head_dim);
    }
    if (differs(&Attention::rope_theta)) {
      line("rope_theta", attention.rope_theta);
    }
    if (differs(&Attention::qk_norm)) {
      line("qk_norm", toString(attention.qk_norm));
    }
    if (differs(&Attention::qkv_bias)) {
      line("qkv_bias", attention.qkv_bias);
    }
  }

  void writeMoe(const Moe &moe) {
    table("[moe]");
    line("experts", moe.experts);
    line("top_k", moe.top_k);
    line("expert_hidden_size", moe.expert_hidden_size);
    line("router", toString(moe.router));
    line("renormalize", moe.renormalize);
    if (moe.shared_experts > 0) {
      line("shared_experts", moe.shared_experts);
      line("shared_expert_hidden_size", moe.shared_expert_hidden_size);
    }
  }

  // Leaves out what the reader's defaults give.
  void writeSegment(const Segment &segment, const ModelSpec &spec) {
    table("[[segment]]");
    line("layers", segment.layers);
    if (segment.visits != 1) {
      line("visits", segment.visits);
    }
    if (segment.visits != 1 || segment.order != VisitOrder::block) {
      line("order", toString(segment.order));
    }
    if (segment.residual_scale != 1.0 / static_cast<double>(segment.visits)) {
      line("residual_scale", segment.residual_scale);
    }
    if (segment.visits != 1) {
      line("kv_cache", toString(segment.kv_cache));
    }
    if (spec.moe && spec.mlp) {
      line("ffn", toString(segment.ffn));
    }
    if (segment.attention != spec.attention) {
      out += "[segment.attention]\n";
      writeAttentionDifferences(segment.attention, &spec.attention);
    }
  }

  std::string out;
};

} // namespace

std::string writeSpec(const ModelSpec &spec, std::string_view comment) {
  return Writer().write(spec, comment);
}

} // namespace smelt::spec
