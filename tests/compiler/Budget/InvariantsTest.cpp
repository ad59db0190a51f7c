// What must hold for any model, on many random ones.
#include "compiler/Budget/Accounting.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>

using namespace smelt::budget;

namespace {

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine() % static_cast<uint64_t>(high - low + 1));
  }
  bool coin() { return from(0, 1) == 1; }

private:
  std::mt19937_64 engine;
};

Attention attention(Random &random) {
  if (random.from(0, 3) == 0) {
    return LatentAttention{.heads = random.from(1, 8),
                           .query_rank = random.from(0, 20),
                           .kv_rank = random.from(1, 20),
                           .nope_dim = random.from(1, 16),
                           .rope_dim = random.from(1, 8),
                           .value_dim = random.from(1, 16),
                           .bias = random.coin()};
  }
  const int64_t kv = random.from(1, 4);
  return GroupedAttention{.query_heads = kv * random.from(1, 4),
                          .kv_heads = kv,
                          .head_dim = random.from(1, 16),
                          .query_bias = random.coin(),
                          .key_bias = random.coin(),
                          .value_bias = random.coin(),
                          .output_bias = random.coin(),
                          .output_gate = random.coin(),
                          .sinks = random.coin()};
}

Layer layer(Random &random) {
  Layer result{.attention = attention(random), .norm_vectors = random.from(0, 4)};
  if (random.coin()) {
    const int64_t experts = random.from(1, 16);
    result.ffn = ExpertMlp{.experts = experts,
                           .top_k = random.from(1, experts),
                           .width = random.from(1, 64),
                           .bias = random.coin(),
                           .router_bias = random.coin(),
                           .correction_bias = random.coin(),
                           .shared_width = random.from(0, 32),
                           .shared_gate = random.coin()};
  } else {
    result.ffn = DenseMlp{.width = random.from(1, 96), .bias = random.coin()};
  }
  if (random.from(0, 2) == 0) {
    result.reach = random.coin() ? Reach::sliding : Reach::chunked;
    result.window = random.from(1, 100);
  }
  return result;
}

Architecture architecture(Random &random) {
  Architecture result{.name = "random",
                      .vocab_size = random.from(1, 300),
                      .hidden_size = random.from(1, 64),
                      .tied = random.coin(),
                      .head_bias = random.coin(),
                      .final_norm_vectors = random.from(0, 2)};
  for (int64_t i = random.from(1, 4); i > 0; --i) {
    const int64_t visits = random.from(1, 4);
    result.groups.push_back(
        {.layer = layer(random), .layers = random.from(1, 5), .visits = visits, .looped = visits > 1});
  }
  if (random.coin()) {
    result.adapters = {
        {.name = "adapter", .inputs = 8, .outputs = 4, .bias = random.coin(), .executions = 2}};
  }
  if (random.coin()) {
    result.mtp = MultiTokenPrediction{.layer = layer(random), .depth = 1};
  }
  return result;
}

Account account(const Architecture &architecture, int64_t length = 64) {
  const AccountResult result = accountFor(architecture, Context::causal(length));
  REQUIRE(result);
  return *result.account;
}

void forManyModels(const std::function<void(Random &, Architecture)> &check) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Architecture model = architecture(random);
    check(random, std::move(model));
  }
}

// Everything that is counted, as one list.
std::vector<int64_t> numbers(const Architecture &architecture) {
  const Account a = account(architecture);
  std::vector<int64_t> result = {a.non_embedding_params,
                                 a.total_params,
                                 a.active_params,
                                 a.forward_flops,
                                 a.kv_elements_per_token,
                                 a.executed_layers,
                                 a.active_params_all,
                                 a.active_params_without_input_embedding,
                                 a.active_params_without_embeddings,
                                 a.stored_params,
                                 a.mtp_params,
                                 a.mtp_active_params,
                                 a.mtp_forward_flops,
                                 a.head_flops,
                                 a.kv.fixed,
                                 a.kv.slope};
  for (const auto &window : a.kv.windows) {
    result.push_back(window.positions);
    result.push_back(window.slope);
  }
  return result;
}

} // namespace

TEST_CASE("tying leaves FLOPs and the cache alone") {
  forManyModels([](Random &, Architecture model) {
    model.tied = false;
    const Account untied = account(model);
    model.tied = true;
    const Account tied = account(model);
    CHECK(tied.forward_flops_with_head == untied.forward_flops_with_head);
    CHECK(tied.kv == untied.kv);
    CHECK(untied.total_params - tied.total_params == model.vocab_size * model.hidden_size);
    CHECK(tied.active_params_without_input_embedding == untied.active_params_without_input_embedding);
  });
}

TEST_CASE("a loop of one visit is no loop, and visits change no weights") {
  forManyModels([](Random &random, Architecture model) {
    Architecture unlooped = model;
    for (LayerGroup &group : unlooped.groups) {
      group.visits = 1;
      group.looped = false;
    }
    Architecture once = model.withVisits(1);
    CHECK(numbers(once) == numbers(unlooped));
    const Account more = account(model.withVisits(random.from(2, 9)));
    CHECK(more.total_params == account(once).total_params);
    CHECK(more.stored_params == account(once).stored_params);
    // One visit more costs loop_flops_per_visit more, but for the rounding of fractions of a FLOP.
    const int64_t difference =
        account(model.withVisits(3)).forward_flops - account(model.withVisits(2)).forward_flops;
    CHECK(std::abs(difference - more.loop_flops_per_visit) <= 1);
  });
}

TEST_CASE("one expert that every token uses is a dense MLP with a router") {
  forManyModels([](Random &random, Architecture model) {
    const int64_t width = random.from(1, 64);
    const bool bias = random.coin();
    Architecture dense = model;
    for (size_t i = 0; i < model.groups.size(); ++i) {
      model.groups[i].layer.ffn = ExpertMlp{.experts = 1, .top_k = 1, .width = width, .bias = bias};
      dense.groups[i].layer.ffn = DenseMlp{.width = width, .bias = bias};
    }
    const Account one = account(model);
    const Account none = account(dense);
    const auto router = static_cast<size_t>(Component::router);
    CHECK(one.total_params - one.components[router].params == none.total_params);
    CHECK(one.active_params - one.components[router].params == none.active_params);
    CHECK(one.forward_flops - one.components[router].forward_flops == none.forward_flops);
    CHECK(one.kv == none.kv);
  });
}

TEST_CASE("KV heads scale the cache alone up to multi-head attention") {
  forManyModels([](Random &random, Architecture model) {
    const int64_t heads = 1 << random.from(0, 4);
    const int64_t head_dim = random.from(1, 16);
    const auto with = [&](int64_t kv_heads) {
      for (LayerGroup &group : model.groups) {
        group.layer.attention =
            GroupedAttention{.query_heads = heads, .kv_heads = kv_heads, .head_dim = head_dim};
      }
      return account(model);
    };
    const Account multi = with(heads);
    const Account single = with(1);
    CHECK(multi.kv_elements_per_token == heads * single.kv_elements_per_token);
    CHECK(multi.kv_elements_per_token == multi.executed_layers * 2 * heads * head_dim);
    CHECK((heads == 1) == (multi.total_params == single.total_params));
  });
}

TEST_CASE("twice the context costs more than twice the FLOPs") {
  forManyModels([](Random &, Architecture model) {
    for (LayerGroup &group : model.groups) {
      group.layer.reach = Reach::full;
      group.layer.window = 0;
    }
    for (int64_t length : {1, 2, 100, 4096}) {
      CHECK(account(model, 2 * length).forward_flops * 2 * length >
            2 * account(model, length).forward_flops * length);
    }
  });
}

TEST_CASE("components add up to the totals") {
  forManyModels([](Random &, Architecture model) {
    const Account a = account(model);
    int64_t params = 0;
    int64_t active = 0;
    int64_t flops = 0;
    for (const ComponentAccount &component : a.components) {
      params += component.params;
      active += component.active_params;
      flops += component.forward_flops;
    }
    CHECK(params == a.total_params);
    CHECK(active == a.active_params_all);
    CHECK(flops == a.forward_flops_with_head);
    CHECK(a.active_params_all <= a.total_params);
    CHECK(a.total_params <= a.stored_params);
  });
}

TEST_CASE("the cache law's pieces meet and agree with its sum") {
  forManyModels([](Random &, Architecture model) {
    const KvLaw law = account(model).kv;
    CHECK(law.pieces().front().slope == account(model).kv_elements_per_token);
    for (const KvLaw::Piece &piece : law.pieces()) {
      CHECK(law.elements(piece.from) == piece.fixed + piece.slope * piece.from);
      CHECK(law.elements(piece.from + 1) <= piece.fixed + piece.slope * (piece.from + 1));
    }
  });
}

// Does not compile once a struct has another field: that one belongs into the list of changes below. Names
// are not counted.
[[maybe_unused]] static void everyField(const Architecture &model, const Layer &layer) {
  [[maybe_unused]] const auto &[name, vocab_size, hidden_size, tied, head_bias, final_norm_vectors, groups,
                                adapters, mtp] = model;
  [[maybe_unused]] const auto &[layer_of_group, layers, visits, looped] = groups.front();
  [[maybe_unused]] const auto &[attention, reach, window, ffn, norm_vectors] = layer;
  [[maybe_unused]] const auto &[adapter_name, inputs, outputs, bias, executions, adapter_looped] =
      adapters.front();
  [[maybe_unused]] const auto &[mtp_layer, depth] = *mtp;
  [[maybe_unused]] const auto &[query_heads, kv_heads, head_dim, query_bias, key_bias, value_bias,
                                output_bias, qk_norm, output_gate, sinks] =
      std::get<GroupedAttention>(attention);
  [[maybe_unused]] const auto &[heads, query_rank, kv_rank, nope_dim, rope_dim, value_dim, latent_bias] =
      std::get<LatentAttention>(attention);
  [[maybe_unused]] const auto &[key_heads, value_heads, key_dim, linear_value_dim, conv_kernel] =
      std::get<LinearAttention>(attention);
  [[maybe_unused]] const auto &[width, mlp_bias] = std::get<DenseMlp>(ffn);
  [[maybe_unused]] const auto &[experts, top_k, expert_width, expert_bias, router_bias, correction_bias,
                                shared_width, shared_gate] = std::get<ExpertMlp>(ffn);
}

TEST_CASE("every field of an architecture changes some number") {
  const Layer expert{.attention = GroupedAttention{.query_heads = 4, .kv_heads = 2, .head_dim = 8},
                     .reach = Reach::sliding,
                     .window = 16,
                     .ffn = ExpertMlp{.experts = 8, .top_k = 2, .width = 24, .shared_width = 8}};
  const Layer latent{
      .attention =
          LatentAttention{
              .heads = 4, .query_rank = 12, .kv_rank = 10, .nope_dim = 8, .rope_dim = 4, .value_dim = 6},
      .ffn = DenseMlp{.width = 40}};
  const Layer linear{
      .attention =
          LinearAttention{.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 6, .conv_kernel = 4},
      .ffn = DenseMlp{.width = 40}};
  Architecture base{.name = "m", .vocab_size = 100, .hidden_size = 32};
  base.groups = {{.layer = expert, .layers = 2, .visits = 2, .looped = true},
                 {.layer = latent, .layers = 3},
                 {.layer = linear, .layers = 1}};
  base.adapters = {{.name = "a", .inputs = 64, .outputs = 32, .executions = 2, .looped = true}};
  base.mtp = MultiTokenPrediction{.layer = latent, .depth = 1};
  const auto grouped = [](Architecture &a) -> auto & {
    return std::get<GroupedAttention>(a.groups[0].layer.attention);
  };
  const auto mla = [](Architecture &a) -> auto & {
    return std::get<LatentAttention>(a.groups[1].layer.attention);
  };
  const auto delta = [](Architecture &a) -> auto & {
    return std::get<LinearAttention>(a.groups[2].layer.attention);
  };
  const auto experts = [](Architecture &a) -> auto & { return std::get<ExpertMlp>(a.groups[0].layer.ffn); };
  const auto dense = [](Architecture &a) -> auto & { return std::get<DenseMlp>(a.groups[1].layer.ffn); };
  const std::function<void(Architecture &)> changes[] = {
      [](Architecture &a) { ++a.vocab_size; },
      [](Architecture &a) { ++a.hidden_size; },
      [](Architecture &a) { a.tied = true; },
      [](Architecture &a) { a.head_bias = true; },
      [](Architecture &a) { ++a.final_norm_vectors; },
      [](Architecture &a) { ++a.groups[0].layers; },
      [](Architecture &a) { ++a.groups[0].visits; },
      [](Architecture &a) { a.groups[0].looped = false; },
      [](Architecture &a) { a.groups[0].layer.reach = Reach::full; },
      [](Architecture &a) { ++a.groups[0].layer.window; },
      [](Architecture &a) { a.groups[0].layer.reach = Reach::chunked; },
      [](Architecture &a) { ++a.groups[0].layer.norm_vectors; },
      [](Architecture &a) { ++a.adapters[0].inputs; },
      [](Architecture &a) { ++a.adapters[0].outputs; },
      [](Architecture &a) { ++a.adapters[0].executions; },
      [](Architecture &a) { a.adapters[0].bias = true; },
      [](Architecture &a) { a.adapters[0].looped = false; },
      [](Architecture &a) { ++a.mtp->depth; },
      [](Architecture &a) { ++a.mtp->layer.norm_vectors; },
      [&](Architecture &a) { ++grouped(a).query_heads; },
      [&](Architecture &a) { ++grouped(a).kv_heads; },
      [&](Architecture &a) { ++grouped(a).head_dim; },
      [&](Architecture &a) { grouped(a).query_bias = true; },
      [&](Architecture &a) { grouped(a).key_bias = true; },
      [&](Architecture &a) { grouped(a).value_bias = true; },
      [&](Architecture &a) { grouped(a).output_bias = true; },
      [&](Architecture &a) { grouped(a).qk_norm = smelt::spec::QkNorm::per_head; },
      [&](Architecture &a) { grouped(a).qk_norm = smelt::spec::QkNorm::full_width; },
      [&](Architecture &a) { grouped(a).output_gate = true; },
      [&](Architecture &a) { grouped(a).sinks = true; },
      [&](Architecture &a) { ++mla(a).heads; },
      [&](Architecture &a) { ++mla(a).query_rank; },
      [&](Architecture &a) { ++mla(a).kv_rank; },
      [&](Architecture &a) { ++mla(a).nope_dim; },
      [&](Architecture &a) { ++mla(a).rope_dim; },
      [&](Architecture &a) { ++mla(a).value_dim; },
      [&](Architecture &a) { mla(a).bias = true; },
      [&](Architecture &a) { ++delta(a).key_heads; },
      [&](Architecture &a) { ++delta(a).value_heads; },
      [&](Architecture &a) { ++delta(a).key_dim; },
      [&](Architecture &a) { ++delta(a).value_dim; },
      [&](Architecture &a) { ++delta(a).conv_kernel; },
      [&](Architecture &a) { ++experts(a).experts; },
      [&](Architecture &a) { ++experts(a).top_k; },
      [&](Architecture &a) { ++experts(a).width; },
      [&](Architecture &a) { experts(a).bias = true; },
      [&](Architecture &a) { experts(a).router_bias = true; },
      [&](Architecture &a) { experts(a).correction_bias = true; },
      [&](Architecture &a) { ++experts(a).shared_width; },
      [&](Architecture &a) { experts(a).shared_gate = true; },
      [&](Architecture &a) { ++dense(a).width; },
      [&](Architecture &a) { dense(a).bias = true; },
  };
  const auto with_loop = [](const Architecture &a) {
    std::vector<int64_t> result = numbers(a);
    result.push_back(account(a).loop_flops_per_visit);
    return result;
  };
  const std::vector<int64_t> before = with_loop(base);
  size_t index = 0;
  for (const auto &change : changes) {
    CAPTURE(index++);
    Architecture changed = base;
    change(changed);
    CHECK(with_loop(changed) != before);
  }
}
