// The same model run in different ways gives the same bits: prefill and decode, chunks, batches, thread
// counts.
#include "tests/e2e/Fixture.h"

#include <catch2/catch.hpp>

using namespace smelt::tests;

namespace {

// Golden cases, and larger models of random weights of every type.
const std::vector<std::pair<std::string, RuntimeModel>> &models() {
  static const std::vector<std::pair<std::string, RuntimeModel>> all = [] {
    std::vector<std::pair<std::string, RuntimeModel>> list;
    for (const std::string name : {"olmoe-looped-layer-order", "glm4-moe-looped", "mixed-attention-looped"}) {
      list.emplace_back(name, goldenModel(name));
    }
    list.emplace_back("ragged f32", build(raggedSpec(), {Precision::f32, false}).model());
    list.emplace_back("ragged bf16", build(raggedSpec(), {Precision::bf16, false}).model());
    list.emplace_back("ragged i8", build(raggedSpec(), {Precision::i8, false}).model());
    const CompileSettings half{.kv_cache = Precision::bf16};
    list.emplace_back("ragged f32, cache of bf16", build(raggedSpec(), half).model());
    return list;
  }();
  return all;
}

// Runs `body` for every model and every code variant of this machine.
template <typename Body> void forEachModel(Body body) {
  for (const auto &[name, model] : models()) {
    for (const std::string &isa : model.supportedIsas()) {
      CAPTURE(name, isa);
      SessionSettings settings;
      settings.isa = isa;
      body(model, settings);
    }
  }
}

Logits whole(const RuntimeModel &model, SessionSettings settings, const std::vector<int32_t> &tokens) {
  RuntimeSession session(model, settings);
  return session.append(tokens);
}

} // namespace

TEST_CASE("prefill equals decode token by token") {
  forEachModel([](const RuntimeModel &model, const SessionSettings &settings) {
    const std::vector<int32_t> tokens = randomTokens(model.info().vocab_size, 37, 1);
    const Logits prefill = whole(model, settings, tokens);
    RuntimeSession session(model, settings);
    for (size_t i = 0; i < tokens.size(); ++i) {
      CAPTURE(i);
      REQUIRE(session.append({tokens[i]}).values == prefill.row(i));
    }
  });
}

TEST_CASE("a long prefill may be cut anywhere") {
  forEachModel([](const RuntimeModel &model, SessionSettings settings) {
    const std::vector<int32_t> tokens = randomTokens(model.info().vocab_size, 257, 2);
    const Logits expected = whole(model, settings, tokens);
    for (const uint32_t chunk : {7U, 64U, 256U}) {
      CAPTURE(chunk);
      settings.max_step_tokens = chunk;
      REQUIRE(whole(model, settings, tokens).values == expected.values);
    }
  });
}

TEST_CASE("any number of threads gives the same bits") {
  forEachModel([](const RuntimeModel &model, SessionSettings settings) {
    const std::vector<int32_t> tokens = randomTokens(model.info().vocab_size, 65, 3);
    settings.threads = 1;
    const Logits expected = whole(model, settings, tokens);
    for (const uint32_t threads : {2U, 3U, 7U}) {
      CAPTURE(threads);
      settings.threads = threads;
      REQUIRE(whole(model, settings, tokens).values == expected.values);
    }
  });
}

TEST_CASE("a batch of sequences equals each of them alone") {
  constexpr int32_t kSequences = 4;
  forEachModel([](const RuntimeModel &model, SessionSettings settings) {
    std::vector<std::vector<int32_t>> prompts;
    std::vector<Logits> alone;
    for (int32_t s = 0; s < kSequences; ++s) {
      prompts.push_back(randomTokens(model.info().vocab_size, 5 + 11 * s, 10 + s));
      alone.push_back(whole(model, settings, prompts.back()));
    }
    settings.sequences = kSequences;
    RuntimeSession session(model, settings);
    // Round robin: a step holds tokens of all sequences, interleaved, each at its own position.
    std::vector<PlacedToken> mixed;
    std::vector<std::pair<int32_t, size_t>> origin;
    for (size_t i = 0; i < prompts.back().size(); ++i) {
      for (int32_t s = 0; s < kSequences; ++s) {
        if (i < prompts[s].size()) {
          mixed.push_back({s, prompts[s][i]});
          origin.emplace_back(s, i);
        }
      }
    }
    const Logits together = session.append(mixed);
    for (size_t row = 0; row < origin.size(); ++row) {
      const auto [sequence, position] = origin[row];
      CAPTURE(sequence, position);
      REQUIRE(together.row(row) == alone[sequence].row(position));
    }
  });
}

TEST_CASE("a truncated sequence continues as if the rest had never been") {
  forEachModel([](const RuntimeModel &model, const SessionSettings &settings) {
    const std::vector<int32_t> tokens = randomTokens(model.info().vocab_size, 24, 4);
    const Logits expected = whole(model, settings, tokens);
    RuntimeSession session(model, settings);
    session.append(std::vector<int32_t>(tokens.begin(), tokens.begin() + 9));
    session.append(randomTokens(model.info().vocab_size, 13, 5));
    session.truncate(0, 9);
    REQUIRE(session.length() == 9);
    const Logits rest = session.append(std::vector<int32_t>(tokens.begin() + 9, tokens.end()));
    for (size_t i = 9; i < tokens.size(); ++i) {
      CAPTURE(i);
      REQUIRE(rest.row(i - 9) == expected.row(i));
    }
  });
}

TEST_CASE("logits are computed for the rows asked for") {
  const RuntimeModel model = goldenModel("qwen3-moe-looped");
  const std::vector<int32_t> tokens = randomTokens(48, 20, 6);
  const Logits all = whole(model, {}, tokens);
  RuntimeSession session(model);
  const std::vector<int32_t> rows = {0, 3, 19};
  smelt_step step = {};
  step.tokens = tokens.data();
  step.token_count = tokens.size();
  step.logit_rows = rows.data();
  step.logit_row_count = rows.size();
  Logits some{48, std::vector<float>(rows.size() * 48)};
  REQUIRE(smelt_session_forward(session.get(), &step, some.values.data(), nullptr) == SMELT_ok);
  for (size_t r = 0; r < rows.size(); ++r) {
    CHECK(some.row(r) == all.row(rows[r]));
  }
}
