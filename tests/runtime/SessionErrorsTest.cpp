// What a session refuses, and what it says.
#include "tests/runtime/ToyKernels.h"
#include "tests/runtime/ToySession.h"

using namespace smelt::tests;
using namespace smelt::artifact;
using Catch::Matchers::Contains;

namespace {

smelt_step step(const std::vector<int32_t> &tokens) {
  return {.tokens = tokens.data(),
          .token_count = tokens.size(),
          .positions = nullptr,
          .sequence_ids = nullptr,
          .logit_rows = nullptr,
          .logit_row_count = 0};
}

} // namespace

TEST_CASE("Tokens, positions, sequences and rows are checked before anything runs") {
  smelt_session_options options = ToySession::defaults();
  options.sequences = 2;
  options.capacity = 16;
  ToySession session(ToyShape{}, options);
  std::vector<int32_t> tokens = {1, 2, 3};
  float logits[3 * toyVocab];
  auto refusal = [&](const smelt_step &wrong) {
    Outcome outcome = session.forward(wrong, logits);
    CHECK(outcome.status == SMELT_input);
    CHECK(smelt_session_length(session.session, 0) == 0);
    return outcome.message;
  };
  SECTION("no tokens") { CHECK(refusal(step({})) == "there are no tokens to run"); }
  SECTION("tokens") {
    tokens = {1, 11, -1};
    CHECK_THAT(refusal(step(tokens)), Contains("token 1 is 11, the vocabulary has 11") &&
                                          Contains("token 2 is -1, the vocabulary has 11"));
  }
  SECTION("positions") {
    std::vector<int32_t> positions = {0, 2, -1};
    smelt_step wrong = step(tokens);
    wrong.positions = positions.data();
    CHECK_THAT(refusal(wrong), Contains("token 1 is at position 2, the next of sequence 0 is 1") &&
                                   Contains("token 2 is at position -1, the next of sequence 0 is 2"));
  }
  SECTION("sequences") {
    std::vector<int32_t> sequences = {0, 2, -1};
    smelt_step wrong = step(tokens);
    wrong.sequence_ids = sequences.data();
    CHECK_THAT(refusal(wrong), Contains("token 1 is of sequence 2, the session has 2") &&
                                   Contains("token 2 is of sequence -1, the session has 2"));
  }
  SECTION("capacity") {
    tokens.resize(17, 1);
    CHECK_THAT(refusal(step(tokens)),
               Contains("token 16 would be at position 16 of sequence 0, the capacity is 16"));
  }
  SECTION("rows") {
    std::vector<int32_t> rows = {1, 1, 3};
    smelt_step wrong = step(tokens);
    wrong.logit_rows = rows.data();
    wrong.logit_row_count = 3;
    CHECK_THAT(refusal(wrong), Contains("logit row 1 is token 1, after token 1; rows must increase") &&
                                   Contains("logit row 2 is token 3 of 3"));
    Outcome outcome = session.forward(wrong, nullptr);
    CHECK_THAT(outcome.message, Contains("no place for them"));
  }
  SECTION("truncate") {
    CHECK_THAT(call(smelt_session_truncate, session.session, 5u, 0u).message,
               Contains("sequence 5 does not exist"));
    CHECK_THAT(call(smelt_session_truncate, session.session, 0u, 1u).message,
               Contains("sequence 0 holds 0 positions and cannot be cut to 1"));
  }
}

TEST_CASE("Options out of range are refused together") {
  smelt_session_options options = {};
  ToySession session(ToyShape{}, options);
  CHECK(session.created.status == SMELT_input);
  CHECK_THAT(session.created.message, Contains("sequences is 0, must be in 1..") &&
                                          Contains("capacity is 0") && Contains("max_step_tokens is 0"));
}

TEST_CASE("A session too large for the machine is refused with its numbers") {
  smelt_session_options options = ToySession::defaults();
  options.sequences = 1 << 20;
  options.capacity = 1 << 30;
  ToySession session(ToyShape{}, options);
  CHECK(session.created.status == SMELT_memory);
  CHECK_THAT(session.created.message,
             Contains("the session needs 96.00 PiB") && Contains("is available") &&
                 Contains("of KV cache for 1048576 sequences of 1073741824 positions"));
}

TEST_CASE("Code is chosen by name or by what the machine can do") {
  ManifestT manifest = toyManifest();
  auto future = std::make_unique<CodeVariantT>(*manifest.variants[0]);
  future->isa = "x86-64-v9";
  future->features = uint64_t(1) << 63;
  smelt_session_options options = ToySession::defaults();
  SECTION("the first supported one") {
    manifest.variants.insert(manifest.variants.begin(), std::move(future));
    ToySession session(manifest, {}, options);
    REQUIRE(session.created.message == "");
    smelt_session_get_options(session.session, &options);
    CHECK(options.isa == std::string("x86-64"));
    smelt_variant_info info;
    REQUIRE(smelt_artifact_get_variant(session.artifact, 0, &info));
    CHECK(!info.supported);
  }
  SECTION("none") {
    manifest.variants[0] = std::move(future);
    ToySession session(manifest, {}, options);
    CHECK(session.created.status == SMELT_unsupported);
    CHECK_THAT(session.created.message, Contains("has code for x86-64-v9, this machine is "));
  }
  SECTION("an unsupported one by name") {
    manifest.variants.push_back(std::move(future));
    options.isa = "x86-64-v9";
    ToySession session(manifest, {}, options);
    CHECK(session.created.status == SMELT_unsupported);
    CHECK_THAT(session.created.message, Contains("its code for x86-64-v9 needs feature bit 63"));
  }
  SECTION("an unknown name") {
    options.isa = "x86-64-v3";
    ToySession session(manifest, {}, options);
    CHECK_THAT(session.created.message, Contains("has no code for 'x86-64-v3'; it has x86-64"));
  }
}

TEST_CASE("A kernel that fails is named with its place, and stops all workers") {
  ManifestT manifest = toyManifest();
  manifest.variants[0]->entries[toy::experts] = toyEntry(reinterpret_cast<const void *>(toy_fail));
  for (uint32_t threads : {1u, 2u, 4u}) {
    for (uint32_t least : {0u, 3u, 1500u}) {
      CAPTURE(threads, least);
      smelt_session_options options = ToySession::defaults();
      options.threads = threads;
      options.min_shared_nanoseconds = least;
      ToySession session(manifest, {}, options);
      for (int again = 0; again < 20; ++again) {
        Outcome outcome = session.forward(step({1}), nullptr);
        CHECK(outcome.status == SMELT_internal);
        CHECK(outcome.message ==
              "kernel 'toy_experts' (experts) failed with code 42 in block 1 call 2, visit 0, layer 0");
        CHECK(smelt_session_length(session.session, 0) == 0);
      }
    }
  }
}

TEST_CASE("Weights of another artifact are refused") {
  ToySession one, other;
  smelt_session *session = nullptr;
  smelt_session_options options = ToySession::defaults();
  Outcome outcome = call(smelt_session_create, one.artifact, other.weights, &options, &session);
  CHECK(outcome.status == SMELT_input);
  CHECK_THAT(outcome.message, Contains("bound for another artifact"));
  CHECK(session == nullptr);
}

TEST_CASE("An artifact describes itself") {
  ToySession session;
  smelt_artifact_info info;
  smelt_artifact_get_info(session.artifact, &info);
  CHECK(info.model_name == std::string("toy"));
  CHECK(info.tensor_count == 10);
  CHECK(info.weight_bytes == smelt_weights_bytes(session.weights));
  CHECK(info.calls_per_step == 2 + 6 * 3);
  smelt_budget_info budget;
  REQUIRE(smelt_artifact_get_budget(session.artifact, 0, &budget));
  CHECK(budget.name == std::string("total_params"));
  CHECK(budget.value == 123);
  CHECK(!smelt_artifact_get_budget(session.artifact, 1, &budget));
  smelt_weight_info weight;
  REQUIRE(smelt_artifact_get_weight(session.artifact, toy::expert, &weight));
  CHECK(weight.name == std::string("model.layers.{layer}.experts.{expert}.weight"));
  CHECK(weight.rank == 1);
  CHECK(weight.shape[0] == toyWidth);
  CHECK(weight.layers == 3);
  CHECK(weight.experts == 2);
  CHECK(weight.tensor_bytes == 16);
  smelt_kernel_info kernel;
  REQUIRE(smelt_artifact_get_kernel(session.artifact, toy::mix, &kernel));
  CHECK(kernel.calls_per_step == 6);
  smelt_session_options options = ToySession::defaults();
  options.capacity = 17;
  smelt_memory memory;
  REQUIRE(call(smelt_memory_needed, session.artifact, &options, &memory).message == "");
  CHECK(memory.capacity == 32);
  CHECK(memory.state == 6 * 32 * 16);
  CHECK(memory.weights == info.weight_bytes);
  CHECK(memory.total == memory.workspace + memory.state + memory.tables + memory.scratch);
}

TEST_CASE("Statuses have texts") {
  CHECK(smelt_status_text(SMELT_weights) == std::string("the weights do not fit the model"));
  CHECK(smelt_dtype_name(SMELT_DTYPE_BF16) == std::string("bf16"));
}
