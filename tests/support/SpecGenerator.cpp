#include "tests/support/SpecGenerator.h"

#include "compiler/Spec/SpecValidator.h"

#include <functional>
#include <initializer_list>
#include <iterator>

namespace smelt::tests {
namespace {

using namespace spec;

// SplitMix64: the standard distributions differ between libraries, this does not.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  uint64_t next() {
    state += 0x9e3779b97f4a7c15U;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  // Low and high included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }

  bool chance(int64_t percent) { return between(1, 100) <= percent; }

  template <typename T> T oneOf(std::initializer_list<T> values) {
    return *std::next(values.begin(), between(0, static_cast<int64_t>(values.size()) - 1));
  }

private:
  uint64_t state;
};

class Generator {
public:
  Generator(uint64_t seed, const GeneratorLimits &limits) : random(seed), limits(limits), seed(seed) {}

  ModelSpec generate() {
    ModelSpec spec;
    spec.name = "generated-" + std::to_string(seed);
    spec.vocab_size = random.between(8, limits.vocab_size);
    spec.hidden_size = random.between(8, limits.hidden_size);
    spec.norm_eps = random.oneOf({1e-6, 1e-5, 1e-3});
    spec.tie_embeddings = random.chance(40);
    spec.attention = attention();
    addFfnTables(spec);
    const int64_t segments = random.between(spec.moe && spec.mlp ? 2 : 1, limits.segments);
    const int64_t plain = random.between(0, segments - 1); // keeps the default attention in use
    for (int64_t i = 0; i < segments; ++i) {
      Segment &added = spec.segments.emplace_back(segment(spec));
      if (i != plain && random.chance(60)) {
        overrideAttention(added.attention);
      }
    }
    useBothFfns(spec);
    return spec;
  }

private:
  Attention attention() {
    Attention result;
    result.kv_heads = random.between(1, limits.kv_heads);
    result.query_heads = result.kv_heads * random.between(1, limits.queries_per_kv_head);
    result.head_dim = random.oneOf<int64_t>({4, 6, 8, 10, 14, 16, 42});
    result.rope_theta = random.oneOf({100.0, 10000.0, 1e6});
    result.qk_norm = random.oneOf({QkNorm::none, QkNorm::per_head, QkNorm::full_width});
    result.qkv_bias = random.chance(40);
    return result;
  }

  // Any subset of the keys; the head counts go together, because one must divide the other.
  void overrideAttention(Attention &out) {
    const Attention other = attention();
    if (random.chance(60)) {
      out.query_heads = other.query_heads;
      out.kv_heads = other.kv_heads;
    }
    if (random.chance(60)) {
      out.head_dim = other.head_dim;
    }
    if (random.chance(60)) {
      out.rope_theta = other.rope_theta;
    }
    if (random.chance(60)) {
      out.qk_norm = other.qk_norm;
    }
    if (random.chance(60)) {
      out.qkv_bias = other.qkv_bias;
    }
  }

  void addFfnTables(ModelSpec &spec) {
    const bool mixed = limits.segments > 1 && random.chance(35);
    const bool dense = random.chance(20);
    if (mixed || !dense) {
      spec.moe = moe();
    }
    if (mixed || dense) {
      spec.mlp = Mlp{.hidden_size = random.between(1, limits.ffn_width)};
    }
  }

  Moe moe() {
    Moe result;
    result.experts = random.between(1, limits.experts);
    result.top_k = random.chance(20) ? result.experts : random.between(1, result.experts);
    result.expert_hidden_size = random.between(1, limits.ffn_width);
    result.router = random.oneOf({RouterKind::softmax, RouterKind::sigmoid});
    result.renormalize = random.chance(50);
    if (random.chance(40)) {
      result.shared_experts = random.between(1, 3);
      result.shared_expert_hidden_size = random.between(1, limits.ffn_width);
    }
    return result;
  }

  Segment segment(const ModelSpec &spec) {
    Segment result;
    result.layers = random.between(1, limits.layers);
    result.visits = random.chance(40) ? 1 : random.between(1, limits.visits);
    result.order = random.oneOf({VisitOrder::block, VisitOrder::layer});
    result.residual_scale = random.chance(30) ? random.oneOf({0.3, 0.75, 1.25}) : 1.0 / double(result.visits);
    result.ffn = !spec.moe || (spec.mlp && random.chance(50)) ? FfnKind::dense : FfnKind::moe;
    result.attention = spec.attention;
    return result;
  }

  // With both tables, both must be used.
  void useBothFfns(ModelSpec &spec) {
    if (spec.moe && spec.mlp) {
      spec.segments.front().ffn = spec.segments.back().ffn == FfnKind::moe ? FfnKind::dense : FfnKind::moe;
    }
  }

  Random random;
  const GeneratorLimits &limits;
  uint64_t seed;
};

class Changer {
public:
  explicit Changer(const ModelSpec &spec) : original(spec) {}

  using AttentionEdit = std::function<void(Attention &)>;
  using Apply = std::function<void(ModelSpec &, const AttentionEdit &)>;

  std::vector<FieldChange> run() {
    changeModel();
    changeMoe();
    if (original.mlp) {
      change("mlp.hidden_size", [](ModelSpec &spec) { ++spec.mlp->hidden_size; });
    }
    for (size_t i = 0; i < original.segments.size(); ++i) {
      changeSegment(i);
    }
    changeAttention("attention.", [](ModelSpec &spec, const AttentionEdit &edit) {
      const Attention before = spec.attention;
      edit(spec.attention);
      for (Segment &segment : spec.segments) {
        inherit(segment.attention, before, spec.attention);
      }
    });
    return std::move(changes);
  }

private:
  // A segment's keys that had the value of [attention] follow it.
  static void inherit(Attention &segment, const Attention &before, const Attention &after) {
    const auto follow = [&](auto member) {
      if (segment.*member == before.*member) {
        segment.*member = after.*member;
      }
    };
    follow(&Attention::query_heads);
    follow(&Attention::kv_heads);
    follow(&Attention::head_dim);
    follow(&Attention::rope_theta);
    follow(&Attention::qk_norm);
    follow(&Attention::qkv_bias);
  }

  // Keeps the change when the result is still a valid spec.
  void change(const std::string &field, const std::function<void(ModelSpec &)> &edit) {
    ModelSpec spec = original;
    edit(spec);
    if (spec != original && validate(spec).empty()) {
      changes.push_back({field, std::move(spec)});
    }
  }

  void changeModel() {
    change("model.name", [](ModelSpec &spec) { spec.name += "-other"; });
    change("model.vocab_size", [](ModelSpec &spec) { ++spec.vocab_size; });
    change("model.hidden_size", [](ModelSpec &spec) { ++spec.hidden_size; });
    change("model.norm_eps", [](ModelSpec &spec) { spec.norm_eps *= 2; });
    change("model.tie_embeddings", [](ModelSpec &spec) { spec.tie_embeddings = !spec.tie_embeddings; });
  }

  void changeMoe() {
    if (!original.moe) {
      return;
    }
    change("moe.experts", [](ModelSpec &spec) { ++spec.moe->experts; });
    change("moe.top_k",
           [](ModelSpec &spec) { spec.moe->top_k += spec.moe->top_k < spec.moe->experts ? 1 : -1; });
    change("moe.expert_hidden_size", [](ModelSpec &spec) { ++spec.moe->expert_hidden_size; });
    change("moe.router", [](ModelSpec &spec) {
      spec.moe->router = spec.moe->router == RouterKind::softmax ? RouterKind::sigmoid : RouterKind::softmax;
    });
    change("moe.renormalize", [](ModelSpec &spec) { spec.moe->renormalize = !spec.moe->renormalize; });
    change("moe.shared_experts", [](ModelSpec &spec) {
      ++spec.moe->shared_experts;
      spec.moe->shared_expert_hidden_size += spec.moe->shared_expert_hidden_size == 0 ? 3 : 0;
    });
    if (original.moe->shared_experts > 0) {
      change("moe.shared_expert_hidden_size", [](ModelSpec &spec) { ++spec.moe->shared_expert_hidden_size; });
    }
  }

  void changeSegment(size_t i) {
    const std::string path = "segment[" + std::to_string(i) + "].";
    change(path + "layers", [i](ModelSpec &spec) { ++spec.segments[i].layers; });
    change(path + "visits", [i](ModelSpec &spec) { ++spec.segments[i].visits; });
    change(path + "order", [i](ModelSpec &spec) {
      VisitOrder &order = spec.segments[i].order;
      order = order == VisitOrder::block ? VisitOrder::layer : VisitOrder::block;
    });
    change(path + "residual_scale", [i](ModelSpec &spec) { spec.segments[i].residual_scale *= 0.5; });
    change(path + "ffn", [i](ModelSpec &spec) {
      FfnKind &ffn = spec.segments[i].ffn;
      ffn = ffn == FfnKind::moe ? FfnKind::dense : FfnKind::moe;
    });
    changeAttention(path + "attention.",
                    [i](ModelSpec &spec, const auto &edit) { edit(spec.segments[i].attention); });
  }

  void changeAttention(const std::string &path, const Apply &apply) {
    const auto edit = [&](const char *key, const AttentionEdit &change_key) {
      change(path + key, [&](ModelSpec &spec) { apply(spec, change_key); });
    };
    edit("query_heads", [](Attention &out) { out.query_heads += out.kv_heads; });
    edit("kv_heads", [](Attention &out) { out.kv_heads = out.kv_heads == 1 ? out.query_heads : 1; });
    edit("head_dim", [](Attention &out) { out.head_dim += 2; });
    edit("rope_theta", [](Attention &out) { out.rope_theta *= 3; });
    edit("qk_norm",
         [](Attention &out) { out.qk_norm = out.qk_norm == QkNorm::none ? QkNorm::per_head : QkNorm::none; });
    edit("qkv_bias", [](Attention &out) { out.qkv_bias = !out.qkv_bias; });
  }

  const ModelSpec &original;
  std::vector<FieldChange> changes;
};

} // namespace

ModelSpec generateSpec(uint64_t seed, const GeneratorLimits &limits) {
  return Generator(seed, limits).generate();
}

std::vector<FieldChange> fieldChanges(const ModelSpec &spec) { return Changer(spec).run(); }

} // namespace smelt::tests
