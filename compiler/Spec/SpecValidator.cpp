#include "compiler/Spec/SpecValidator.h"

#include "compiler/Spec/SpecNames.h"
#include "compiler/Spec/WeightTable.h"

#include <cmath>
#include <fmt/format.h>

namespace smelt::spec {
namespace {

// Equal, where a NaN equals itself: one bad number is then one problem.
template <typename T> bool same(T a, T b) { return a == b || (a != a && b != b); }

class Validator {
public:
  explicit Validator(const ModelSpec &spec) : spec(spec) {}

  std::vector<Problem> run() {
    checkModel();
    checkAttention(spec.attention, "attention", "[attention]");
    checkFfnTables();
    checkSegments();
    checkUnusedAttention();
    if (problems.empty()) {
      checkSize(); // needs every dimension in its limits
    }
    return std::move(problems);
  }

private:
  void report(std::vector<std::string> fields, std::string message) {
    problems.push_back({std::move(fields), std::move(message)});
  }

  bool inRange(const std::string &path, std::string_view label, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) {
      return true;
    }
    report({path}, fmt::format("{} must be from {} to {}, not {}", label, low, high, value));
    return false;
  }

  // The compiled model holds these as 32-bit floats.
  void positiveFloat(const std::string &path, std::string_view label, double value) {
    const auto narrow = static_cast<float>(value);
    if (!(narrow > 0.0F) || !std::isfinite(narrow)) {
      report({path}, fmt::format("{} must be a positive finite 32-bit number, not {}", label, value));
    }
  }

  void checkModel() {
    const bool control = spec.name.find_first_of(std::string_view("\0\n\r\t\x7f", 5)) != std::string::npos;
    if (spec.name.empty() || control || spec.name.size() > static_cast<size_t>(Limits::name_bytes)) {
      report({"model.name"},
             fmt::format("'name' in [model] must be 1 to {} bytes on one line", Limits::name_bytes));
    }
    inRange("model.vocab_size", "'vocab_size' in [model]", spec.vocab_size, 1, Limits::vocab_size);
    inRange("model.hidden_size", "'hidden_size' in [model]", spec.hidden_size, 1, Limits::width);
    positiveFloat("model.norm_eps", "'norm_eps' in [model]", spec.norm_eps);
  }

  // Checks the fields that are not simply those of `base`, where the same problems are reported.
  void checkAttention(const Attention &attention, const std::string &path, const std::string &label,
                      const Attention *base = nullptr) {
    const auto field = [&](std::string_view key) { return fmt::format("{}.{}", path, key); };
    const auto in = [&](std::string_view key) { return fmt::format("'{}' in {}", key, label); };
    const auto own = [&](auto member) { return !base || !same(attention.*member, base->*member); };
    const auto dimension = [&](int64_t Attention::*member, std::string_view key, int64_t high) {
      const int64_t value = attention.*member;
      return own(member) ? inRange(field(key), in(key), value, 1, high) : value >= 1 && value <= high;
    };
    const bool own_heads = own(&Attention::query_heads) || own(&Attention::kv_heads);
    const bool own_width = own(&Attention::query_heads) || own(&Attention::head_dim);
    const bool heads = dimension(&Attention::query_heads, "query_heads", Limits::heads);
    const bool kv = dimension(&Attention::kv_heads, "kv_heads", Limits::heads);
    const bool dim = dimension(&Attention::head_dim, "head_dim", Limits::head_dim);
    if (own_heads && heads && kv && attention.query_heads % attention.kv_heads != 0) {
      report(
          {field("query_heads"), field("kv_heads")},
          fmt::format("{} = {} is not a multiple of 'kv_heads' = {}: every KV head serves the same number of "
                      "query heads",
                      in("query_heads"), attention.query_heads, attention.kv_heads));
    }
    if (own(&Attention::head_dim) && dim && attention.head_dim % 2 != 0) {
      report({field("head_dim")}, fmt::format("{} = {} is odd: RoPE rotates pairs of elements",
                                              in("head_dim"), attention.head_dim));
    }
    if (own_width && heads && dim && attention.queryWidth() > Limits::width) {
      report({field("query_heads"), field("head_dim")},
             fmt::format("{} x 'head_dim' = {} x {} is more than {}", in("query_heads"),
                         attention.query_heads, attention.head_dim, Limits::width));
    }
    // Below 1 the later pairs would turn faster than the position, without bound.
    if (own(&Attention::rope_theta) &&
        (!(attention.rope_theta >= 1.0) || !std::isfinite(attention.rope_theta))) {
      report({field("rope_theta")},
             fmt::format("{} must be finite and at least 1, not {}", in("rope_theta"), attention.rope_theta));
    }
  }

  void checkFfnTables() {
    if (spec.mlp) {
      inRange("mlp.hidden_size", "'hidden_size' in [mlp]", spec.mlp->hidden_size, 1, Limits::width);
    }
    if (!spec.moe) {
      return;
    }
    const Moe &moe = *spec.moe;
    const bool experts = inRange("moe.experts", "'experts' in [moe]", moe.experts, 1, Limits::experts);
    const bool top_k = inRange("moe.top_k", "'top_k' in [moe]", moe.top_k, 1, Limits::experts);
    if (experts && top_k && moe.top_k > moe.experts) {
      report({"moe.top_k", "moe.experts"},
             fmt::format("'top_k' = {} in [moe] is more than 'experts' = {}", moe.top_k, moe.experts));
    }
    inRange("moe.expert_hidden_size", "'expert_hidden_size' in [moe]", moe.expert_hidden_size, 1,
            Limits::width);
    checkShared(moe);
  }

  void checkShared(const Moe &moe) {
    const std::string count = "moe.shared_experts";
    const std::string width = "moe.shared_expert_hidden_size";
    if (!inRange(count, "'shared_experts' in [moe]", moe.shared_experts, 0, Limits::experts)) {
      return;
    }
    if (moe.shared_experts == 0) {
      if (moe.shared_expert_hidden_size != 0) {
        report({width, count},
               "'shared_expert_hidden_size' in [moe] has no effect without 'shared_experts'; set "
               "'shared_experts' or remove it");
      }
      return;
    }
    if (moe.shared_expert_hidden_size == 0) {
      report({count, width}, fmt::format("'shared_experts' = {} in [moe] needs 'shared_expert_hidden_size'",
                                         moe.shared_experts));
    } else if (inRange(width, "'shared_expert_hidden_size' in [moe]", moe.shared_expert_hidden_size, 1,
                       Limits::width) &&
               moe.sharedWidth() > Limits::width) {
      report({count, width},
             fmt::format("'shared_experts' x 'shared_expert_hidden_size' in [moe] = {} x {} is "
                         "more than {}",
                         moe.shared_experts, moe.shared_expert_hidden_size, Limits::width));
    }
  }

  void checkSegments() {
    if (spec.segments.empty()) {
      report({"segment"}, "the spec has no [[segment]]");
      return;
    }
    bool in_range = true;
    int64_t layers = 0;
    for (size_t i = 0; i < spec.segments.size(); ++i) {
      in_range &= checkSegment(spec.segments[i], fmt::format("segment[{}]", i));
      layers += in_range ? spec.segments[i].layers : 0;
      if (in_range && layers > Limits::layers) {
        report({fmt::format("segment[{}].layers", i)},
               fmt::format("the segments have more than {} layers together", Limits::layers));
        break;
      }
    }
    checkUnusedTable(FfnKind::moe, spec.moe.has_value(), "moe");
    checkUnusedTable(FfnKind::dense, spec.mlp.has_value(), "mlp");
  }

  bool checkSegment(const Segment &segment, const std::string &path) {
    const bool layers =
        inRange(path + ".layers", "'layers' in [[segment]]", segment.layers, 1, Limits::layers);
    const bool visits =
        inRange(path + ".visits", "'visits' in [[segment]]", segment.visits, 1, Limits::visits);
    positiveFloat(path + ".residual_scale", "'residual_scale' in [[segment]]", segment.residual_scale);
    const bool moe = segment.ffn == FfnKind::moe;
    if (moe ? !spec.moe : !spec.mlp) {
      report({path + ".ffn", moe ? "moe" : "mlp"},
             fmt::format("a segment with ffn = \"{}\" needs the table [{}]", toString(segment.ffn),
                         moe ? "moe" : "mlp"));
    }
    checkAttention(segment.attention, path + ".attention", "[segment.attention]", &spec.attention);
    return layers && visits;
  }

  void checkUnusedTable(FfnKind kind, bool present, const std::string &table) {
    for (const Segment &segment : spec.segments) {
      present &= segment.ffn != kind;
    }
    if (present) {
      std::vector<std::string> fields{table};
      for (size_t i = 0; i < spec.segments.size(); ++i) {
        fields.push_back(fmt::format("segment[{}].ffn", i));
      }
      report(std::move(fields),
             fmt::format("[{}] has no effect: no segment has ffn = \"{}\"; remove the table or "
                         "give a segment that ffn",
                         table, toString(kind)));
    }
  }

  // A default that every segment overrides has no effect.
  template <typename T> void checkUnusedDefault(T Attention::*field, const char *key) {
    std::vector<std::string> fields{fmt::format("attention.{}", key)};
    for (size_t i = 0; i < spec.segments.size(); ++i) {
      if (same(spec.segments[i].attention.*field, spec.attention.*field)) {
        return;
      }
      fields.push_back(fmt::format("segment[{}].attention.{}", i, key));
    }
    report(std::move(fields),
           fmt::format("'{}' in [attention] has no effect: every segment overrides it; give "
                       "[attention] the value of one of the segments",
                       key));
  }

  void checkUnusedAttention() {
    if (spec.segments.empty()) {
      return;
    }
    checkUnusedDefault(&Attention::query_heads, "query_heads");
    checkUnusedDefault(&Attention::kv_heads, "kv_heads");
    checkUnusedDefault(&Attention::head_dim, "head_dim");
    checkUnusedDefault(&Attention::rope_theta, "rope_theta");
    checkUnusedDefault(&Attention::qk_norm, "qk_norm");
    checkUnusedDefault(&Attention::qkv_bias, "qkv_bias");
  }

  void checkSize() {
    __int128 params = 0;
    for (const WeightDecl &weight : weightTable(spec)) {
      __int128 elements = weight.tensors();
      for (int64_t dim : weight.shape) {
        elements *= dim;
      }
      params += elements;
    }
    if (params > kMaxTotalParams) {
      report({"model"}, fmt::format("the model has about {:.3g} parameters; at most {:.3g} are supported",
                                    static_cast<double>(params), static_cast<double>(kMaxTotalParams)));
    }
  }

  const ModelSpec &spec;
  std::vector<Problem> problems;
};

} // namespace

std::vector<Problem> validate(const ModelSpec &spec) { return Validator(spec).run(); }

} // namespace smelt::spec
