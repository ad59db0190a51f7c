// What a session computes: the toy model against its reference, bit for bit.
#include "tests/runtime/ToyKernels.h"
#include "tests/runtime/ToySession.h"

#include <thread>

using namespace smelt::tests;
using namespace smelt::artifact;

namespace {

const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 10, 0, 2};

std::vector<float> reference(const ToyShape &shape, const std::vector<int32_t> &tokens = prompt) {
  return toyReference(toyWeights(shape), shape, tokens);
}

} // namespace

TEST_CASE("Segments run in block or layer order with a state slot per visit and layer") {
  for (uint32_t layers : {1u, 2u, 3u}) {
    for (uint32_t visits : {1u, 2u, 3u, 4u}) {
      for (VisitOrder order : {VisitOrder::block, VisitOrder::layer}) {
        ToyShape shape{layers, visits, order};
        ToySession session(shape);
        CHECK(session.run(prompt) == reference(shape));
      }
    }
  }
  CHECK(reference({3, 2, VisitOrder::block}) != reference({3, 2, VisitOrder::layer}));
}

TEST_CASE("A block may start at any layer and slot") {
  ToyShape shape{4, 1, VisitOrder::block};
  ManifestT manifest = toyManifest(shape);
  // The same four layers as two blocks, whose slots come in the opposite order.
  auto second = std::make_unique<BlockT>(*manifest.blocks[1]);
  manifest.blocks[1]->layers = 1;
  manifest.blocks[1]->slot_base = 3;
  second->first_layer = 1;
  second->layers = 3;
  manifest.blocks.insert(manifest.blocks.begin() + 2, std::move(second));
  ToySession session(manifest, shape, ToySession::defaults());
  CHECK(session.run(prompt) == reference(shape));
}

TEST_CASE("Neither threads nor chunks nor logit rows change a bit") {
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    for (uint32_t chunk : {1u, 3u, 16u, 512u}) {
      smelt_session_options options = ToySession::defaults();
      options.threads = threads;
      options.max_step_tokens = chunk;
      options.max_logit_rows = chunk == 16 ? 5 : 0;
      ToySession session(ToyShape{}, options);
      CHECK(session.run(prompt) == reference({}));
    }
  }
}

TEST_CASE("Which launches are shared changes no bit") {
  for (uint32_t least :
       {0u, 2u, 5u, 10u, 20u, 40u, 1500u}) { // nanoseconds: some, all or no kernels of the toy
    for (uint32_t chunk : {1u, 512u}) {
      smelt_session_options options = ToySession::defaults();
      options.threads = 3;
      options.max_step_tokens = chunk;
      options.min_shared_nanoseconds = least;
      ToySession session(ToyShape{}, options);
      CHECK(session.run(prompt) == reference({}));
    }
  }
}

TEST_CASE("Prefill equals token by token") {
  ToySession session;
  std::vector<float> all;
  for (int32_t token : prompt) {
    std::vector<float> one = session.run({token});
    all.insert(all.end(), one.begin(), one.end());
  }
  CHECK(all == reference({}));
  CHECK(smelt_session_length(session.session, 0) == prompt.size());
}

TEST_CASE("Sequences of a batch do not see each other") {
  smelt_session_options options = ToySession::defaults();
  options.sequences = 3;
  options.max_step_tokens = 4;
  ToySession session(ToyShape{}, options);
  std::vector<int32_t> tokens, sequences;
  for (size_t i = 0; i < prompt.size(); ++i) { // interleaved; sequence 2 runs backwards
    tokens.insert(tokens.end(), {prompt[i], prompt[prompt.size() - 1 - i]});
    sequences.insert(sequences.end(), {0, 2});
  }
  std::vector<float> logits = session.run(tokens, sequences);
  std::vector<float> forwards = reference({}), backwards = reference({}, {prompt.rbegin(), prompt.rend()});
  for (size_t i = 0; i < prompt.size(); ++i) {
    auto row = [](const std::vector<float> &all, size_t r) {
      return std::vector<float>(all.begin() + long(r * toyVocab), all.begin() + long((r + 1) * toyVocab));
    };
    CHECK(row(logits, 2 * i) == row(forwards, i));
    CHECK(row(logits, 2 * i + 1) == row(backwards, i));
  }
  CHECK(smelt_session_length(session.session, 1) == 0);
  CHECK(session.run(prompt, 1) == forwards);
}

TEST_CASE("Only the rows asked for come back") {
  smelt_session_options options = ToySession::defaults();
  options.max_step_tokens = 5;
  ToySession session(ToyShape{}, options);
  std::vector<int32_t> rows = {0, 4, 5, 16};
  std::vector<float> logits(rows.size() * toyVocab), all = reference({});
  smelt_step step = {.tokens = prompt.data(),
                     .token_count = prompt.size(),
                     .positions = nullptr,
                     .sequence_ids = nullptr,
                     .logit_rows = rows.data(),
                     .logit_row_count = rows.size()};
  REQUIRE(session.forward(step, logits.data()).message == "");
  for (size_t r = 0; r < rows.size(); ++r) {
    CHECK(std::equal(logits.begin() + long(r * toyVocab), logits.begin() + long((r + 1) * toyVocab),
                     all.begin() + rows[r] * toyVocab));
  }
  step.logit_row_count = 0;
  CHECK(session.forward(step, nullptr).message == "");
  CHECK(smelt_session_length(session.session, 0) == 2 * prompt.size());
}

TEST_CASE("A truncated sequence continues as if the rest had never been") {
  ToySession session;
  session.run(prompt);
  REQUIRE(call(smelt_session_truncate, session.session, 0u, 5u).message == "");
  CHECK(smelt_session_length(session.session, 0) == 5);
  std::vector<int32_t> rest(prompt.begin() + 5, prompt.end());
  std::vector<float> all = reference({});
  CHECK(session.run(rest) == std::vector<float>(all.begin() + 5 * toyVocab, all.end()));
  REQUIRE(call(smelt_session_truncate, session.session, 0u, 0u).message == "");
  CHECK(session.run(prompt) == all);
}

TEST_CASE("Explicit positions are accepted when they continue the sequence") {
  ToySession session;
  std::vector<int32_t> positions(prompt.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = int32_t(i);
  }
  smelt_step step = {.tokens = prompt.data(),
                     .token_count = prompt.size(),
                     .positions = positions.data(),
                     .sequence_ids = nullptr,
                     .logit_rows = nullptr,
                     .logit_row_count = 0};
  CHECK(session.forward(step, nullptr).message == "");
}

TEST_CASE("Probes see every written buffer in order") {
  struct Seen {
    std::string buffer, role;
    int32_t visit, layer;
    int64_t slot;
    uint64_t rows, rowBytes, bytes, firstToken;
  };
  std::vector<Seen> seen;
  smelt_session_options options = ToySession::defaults();
  options.max_step_tokens = 2;
  ToySession session(ToyShape{2, 2, VisitOrder::layer}, options);
  smelt_session_set_probe(
      session.session,
      [](void *user, const smelt_probe *probe) {
        static_cast<std::vector<Seen> *>(user)->push_back(
            {probe->buffer, probe->role, probe->visit, probe->layer, probe->slot, probe->rows,
             probe->row_bytes, probe->bytes, probe->first_token});
      },
      &seen);
  session.run({1, 2, 3});
  REQUIRE(seen.size() == 2 * (1 + 4 * 3 + 1));
  CHECK(seen[0].buffer == "x");
  CHECK(seen[0].role == "embed");
  CHECK(seen[0].layer == -1);
  CHECK(seen[0].rows == 2);
  CHECK(seen[0].bytes == 2 * seen[0].rowBytes);
  std::vector<std::tuple<int32_t, int32_t, int64_t>> appends;
  for (const Seen &event : seen) {
    if (event.role == "append" && event.firstToken == 0) {
      appends.emplace_back(event.layer, event.visit, event.slot);
      CHECK(event.buffer == "sums");
      CHECK(event.bytes == 64 * toyWidth * 4);
    }
  }
  CHECK(appends ==
        std::vector<std::tuple<int32_t, int32_t, int64_t>>{{0, 0, 0}, {0, 1, 2}, {1, 0, 1}, {1, 1, 3}});
  CHECK(seen.back().buffer == "logits");
  CHECK(seen.back().rows == 1);
  CHECK(seen.back().firstToken == 2);
  seen.clear();
  smelt_session_set_probe(session.session, nullptr, nullptr);
  session.run({1});
  CHECK(seen.empty());
}

TEST_CASE("A profile counts calls, bytes and operations") {
  smelt_session_options options = ToySession::defaults();
  options.profile = true;
  ToySession session(ToyShape{3, 2, VisitOrder::block}, options);
  session.run({1, 2, 3, 4, 5});
  smelt_kernel_profile mix, experts, head;
  REQUIRE(smelt_session_get_profile(session.session, toy::mix, &mix));
  REQUIRE(smelt_session_get_profile(session.session, toy::experts, &experts));
  REQUIRE(smelt_session_get_profile(session.session, toy::head, &head));
  CHECK(!smelt_session_get_profile(session.session, 5, &head));
  CHECK(mix.kernel == std::string("toy_mix"));
  CHECK(mix.calls == 6);
  CHECK(mix.seconds > 0);
  CHECK(mix.flops == 6 * 5 * 10);
  // x read and written, two index lists, five cached positions, one scale.
  CHECK(mix.bytes == 6 * (2 * 5 * 16 + 2 * 5 * 4 + 5 * 16 + 16));
  CHECK(experts.bytes == 6 * (2 * 5 * 16 + 5 * 4 + 2 * 16));
  CHECK(head.calls == 1);
  smelt_session_reset_profile(session.session);
  REQUIRE(smelt_session_get_profile(session.session, toy::mix, &mix));
  CHECK(mix.calls == 0);
}

TEST_CASE("Each worker has scratch of its own") {
  ManifestT manifest = toyManifest();
  auto kernel = std::make_unique<KernelT>();
  kernel->name = "toy_scratch";
  kernel->role = "scratch";
  kernel->constants = 1;
  kernel->scratch_bytes = 1000;
  manifest.kernels.push_back(std::move(kernel));
  manifest.variants[0]->entries.push_back(toyEntry(reinterpret_cast<const void *>(toy_scratch)));
  auto scratch = std::make_unique<CallT>();
  scratch->kernel = 5;
  scratch->constants = {Constant(ConstantKind::immediate, 1000)};
  manifest.blocks[0]->calls.push_back(std::move(scratch));
  smelt_session_options options = ToySession::defaults();
  options.threads = 4;
  ToySession session(manifest, {}, options);
  CHECK(session.run(prompt) == reference({}));
  smelt_memory memory;
  smelt_session_get_memory(session.session, &memory);
  CHECK(memory.scratch == 4 * 1024);
}

TEST_CASE("An interrupt stops the next forward, once, and no sequence grows") {
  ToySession session;
  session.run(prompt);
  smelt_session_interrupt(session.session);
  int32_t token = 1;
  smelt_step step = {.tokens = &token,
                     .token_count = 1,
                     .positions = nullptr,
                     .sequence_ids = nullptr,
                     .logit_rows = nullptr,
                     .logit_row_count = 0};
  CHECK(session.forward(step, nullptr).status == SMELT_interrupted);
  CHECK(smelt_session_length(session.session, 0) == prompt.size());
  CHECK(session.forward(step, nullptr).status == SMELT_ok);
}

TEST_CASE("An interrupt from another thread stops a running forward") {
  smelt_session_options options = ToySession::defaults();
  options.capacity = 1 << 16;
  ToySession session(ToyShape{}, options);
  std::vector<int32_t> tokens(1 << 16, 1);
  smelt_step step = {.tokens = tokens.data(),
                     .token_count = tokens.size(),
                     .positions = nullptr,
                     .sequence_ids = nullptr,
                     .logit_rows = nullptr,
                     .logit_row_count = 0};
  std::thread other([&] { smelt_session_interrupt(session.session); });
  CHECK(session.forward(step, nullptr).status == SMELT_interrupted);
  other.join();
  CHECK(smelt_session_length(session.session, 0) == 0);
}

TEST_CASE("Two sessions share an artifact and its weights") {
  ToySession first;
  smelt_session *second = nullptr;
  smelt_session_options options = ToySession::defaults();
  REQUIRE(call(smelt_session_create, first.artifact, first.weights, &options, &second).message == "");
  std::vector<float> logits(toyVocab);
  int32_t row = 0;
  smelt_step step = {.tokens = prompt.data(),
                     .token_count = 1,
                     .positions = nullptr,
                     .sequence_ids = nullptr,
                     .logit_rows = &row,
                     .logit_row_count = 1};
  CHECK(call(smelt_session_forward, second, &step, logits.data()).message == "");
  CHECK(first.run({prompt[0]}) == logits);
  smelt_session_destroy(second);
}

TEST_CASE("A handmade machine code image runs") {
  ManifestT manifest = toyManifest();
  for (uint32_t &entry : manifest.variants[0]->entries) {
    entry = 1;
  }
  std::string_view code = "\x90\x31\xc0\xc3"; // nop; xor eax, eax; ret
  manifest.variants[0]->size = code.size();
  ToySession session(manifest, {}, ToySession::defaults(), code);
  CHECK(session.run({1}) == std::vector<float>(toyVocab));
}
