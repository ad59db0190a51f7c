// Published models, to the last parameter. FLOPs are of 4096 causal positions with the head; bytes of the
// cache in 16 bits.
#include "tests/compiler/Import/HuggingFaceFixtures.h"

#include <catch2/catch.hpp>
#include <tuple>
#include <utility>
#include <vector>

using namespace smelt;

namespace {

struct Published {
  const char *name;
  int64_t total;
  int64_t non_embedding;
  int64_t active_all;
  int64_t active_without_input_embedding;
  int64_t active_without_embeddings;
  int64_t kv_bytes_per_token;
  int64_t forward_flops;
};

constexpr Published kPublished[] = {
    {"mixtral-8x7b", 46702792704, 46440648704, 12879925248, 12748853248, 12617781248, 131072, 26571177984},
    {"qwen1.5-moe-a2.7b", 14315784192, 13693454336, 2689173504, 2378008576, 2066843648, 196608, 5158273024},
    {"qwen3-30b-a3b", 30532122624, 29909792768, 3353032704, 3041867776, 2730702848, 98304, 7694319616},
    {"qwen3-next-80b-a3b", 79674391296, 79052061440, 3874929408, 3563764480, 3252599552, 24576, 7527497728},
    {"deepseek-v2-lite", 15706484224, 15287053824, 2661150208, 2451435008, 2241719808, 31104, 5468986368},
    {"deepseek-v3", 671026419200, 669173061120, 37552297472, 36625618432, 35698939392, 70272, 83485794304},
    {"olmoe-1b-7b", 6919161856, 6713116672, 1282017280, 1178994688, 1075972096, 131072, 2626224128},
    {"gpt-oss-20b", 20914757184, 19756490304, 4187440704, 3608307264, 3029173824, 49152, 7641811968},
    {"gpt-oss-120b", 116829156672, 115670889792, 5711982912, 5132849472, 4553716032, 73728, 10903491072},
    {"ouro-1.4b", 1434652673, 1233326081, 1434652673, 1333989377, 1233326081, 786432, 11677335552},
    {"huginn-0125", 3564976800, 3218946720, 3564976800, 3564976800, 3218946720, 2787840, 114348115200},
};

} // namespace

TEST_CASE("published models are counted to the last parameter") {
  for (const Published &published : kPublished) {
    CAPTURE(published.name);
    const budget::Account account =
        tests::accountOf(tests::readFixture(published.name), budget::Context::causal(4096));
    CHECK(account.total_params == published.total);
    CHECK(account.non_embedding_params_with_final_norm == published.non_embedding);
    CHECK(account.active_params_all == published.active_all);
    CHECK(account.active_params_without_input_embedding == published.active_without_input_embedding);
    CHECK(account.active_params_without_embeddings == published.active_without_embeddings);
    CHECK(2 * account.kv_elements_per_token == published.kv_bytes_per_token);
    CHECK(account.forward_flops_with_head == published.forward_flops);
  }
}

// Totals of the published checkpoints, as their classes build them.
TEST_CASE("every family is counted to the last parameter") {
  constexpr std::pair<const char *, int64_t> totals[] = {
      {"gemma-2-9b", 9241705984},    {"gemma-3-4b", 3880263168},      {"gemma-7b", 8537680896},
      {"glm-4.5-air", 106852251264}, {"kimi-k2", 1026408232448},      {"granite-3.1-3b-a800m", 3298793472},
      {"llama-2-7b", 6738415616},    {"llama-3-8b", 8030261248},      {"llama-4-scout", 107769861120},
      {"mistral-7b", 7241732096},    {"mixtral-8x22b", 140620634112}, {"phi-3.5-moe", 41873153344},
      {"qwen1.5-72b", 72287920128},  {"qwen2-57b-a14b", 57408658944}, {"qwen3-235b-a22b", 235093634560},
      {"qwen3-32b", 32762123264},    {"nanbeige4.2-3b", 4169800704},
  };
  for (const auto &[name, total] : totals) {
    CAPTURE(name);
    CHECK(tests::accountOf(tests::readFixture(name), budget::Context()).total_params == total);
  }
}

TEST_CASE("active parameters are those of the model cards, each under its own convention") {
  const auto billions = [](int64_t count, double card, double digits) {
    CHECK(static_cast<double>(count) / 1e9 == Approx(card).margin(digits));
  };
  const auto account = [](const char *name) {
    return tests::accountOf(tests::readFixture(name), budget::Context());
  };
  billions(account("mixtral-8x22b").active_params_all, 39.15, 0.005);
  billions(account("qwen2-57b-a14b").active_params_all, 14.25, 0.005);
  billions(account("qwen3-235b-a22b").active_params_all, 22.19, 0.005);
  billions(account("phi-3.5-moe").active_params_all, 6.641, 0.0005);
  billions(account("llama-4-scout").active_params_all, 17.17, 0.005);
  billions(account("granite-3.1-3b-a800m").active_params_without_embeddings, 0.807, 0.0005);
  billions(account("glm-4.5-air").active_params_without_embeddings, 12.18, 0.005);
  billions(account("kimi-k2").active_params_all, 32.86, 0.005);
}

TEST_CASE("multi-token prediction is stored, with the embedding and head again, and outside the totals") {
  const budget::Account account = tests::accountOf(tests::readFixture("deepseek-v3"), budget::Context());
  CHECK(account.total_params + account.mtp_params == 682636487424);
  CHECK(account.stored_params == account.total_params + account.mtp_params + 2 * int64_t{129280} * 7168);
  CHECK(account.mtp_active_params == 688100608);
}

TEST_CASE("a loop's FLOPs and cache follow its visits") {
  const hf::Model huginn = tests::readFixture("huginn-0125");
  constexpr std::tuple<int64_t, int64_t, int64_t> expected[] = {
      {1, 7129436160, 168960}, {4, 16952770560, 422400}, {32, 108637224960, 2787840}};
  for (const auto &[visits, matrix_flops, kv_bytes] : expected) {
    const budget::Account account = *budget::accountFor(huginn.architecture.withVisits(visits), {}).account;
    const int64_t scores = (4 + 4 * visits) * 4 * 5280 * 392;
    CHECK(account.forward_flops_with_head - scores == matrix_flops);
    CHECK(2 * account.kv_elements_per_token == kv_bytes);
    CHECK(account.total_params == 3564976800);
  }
}

TEST_CASE("caches are affine in the position, with a breakpoint at each window") {
  const budget::KvLaw windows = tests::accountOf(tests::readFixture("gpt-oss-20b"), budget::Context()).kv;
  CHECK(windows.fixed == 0);
  CHECK(windows.slope == 12 * 1024);
  CHECK(windows.pieces() ==
        std::vector<budget::KvLaw::Piece>{{0, 0, 24 * 1024}, {128, 12 * 1024 * 128, 12 * 1024}});
  CHECK(windows.elements(128) == 24 * 1024 * 128);
  CHECK(windows.elements(1000) == 12 * 1024 * 1128);

  const budget::KvLaw linear =
      tests::accountOf(tests::readFixture("qwen3-next-80b-a3b"), budget::Context()).kv;
  CHECK(linear.slope == 12 * 1024);
  CHECK(linear.fixed == 36 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)));
}
