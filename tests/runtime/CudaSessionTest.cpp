// What a session on a GPU computes, on the look-alike driver: the toy model against its reference, bit for
// bit.
#include "tests/runtime/CudaSession.h"

using namespace smelt::tests;
using namespace smelt::artifact;
using Catch::Matchers::Contains;

namespace {

const std::vector<int32_t> prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 10, 0, 2};

std::vector<float> reference(const ToyShape &shape, const std::vector<int32_t> &tokens = prompt) {
  return toyReference(cudaToyWeights(shape), shape, tokens);
}

std::vector<float> stepByStep(CudaToySession &session, const std::vector<int32_t> &tokens) {
  std::vector<float> all;
  for (int32_t token : tokens) {
    std::vector<float> one = session.run({token});
    CHECK(session.outcome.message == "");
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

} // namespace

TEST_CASE("A GPU runs segments in block or layer order with a state slot per visit and layer") {
  for (VisitOrder order : {VisitOrder::block, VisitOrder::layer}) {
    for (uint32_t visits : {1u, 3u}) {
      ToyShape shape{2, visits, order};
      CudaToySession session(shape);
      REQUIRE(session.created.message == "");
      CHECK(session.run(prompt) == reference(shape));
    }
  }
}

TEST_CASE("On a GPU neither chunks nor logit rows nor the program chosen change a bit") {
  for (uint32_t chunk : {1u, 3u, 4u, 5u, 16u, 512u}) {
    smelt_session_options options = CudaToySession::defaults();
    options.max_step_tokens = chunk;
    options.max_logit_rows = chunk == 16 ? 5 : 0;
    CudaToySession session(ToyShape{}, options);
    CHECK(session.run(prompt) == reference({}));
    CHECK(session.outcome.message == "");
  }
}

TEST_CASE("Graphs and direct launches give the same bits") {
  std::vector<float> graphs, direct, synchronous;
  {
    CudaToySession session;
    graphs = stepByStep(session, prompt);
  }
  {
    Variable off("SMELT_CUDA_GRAPHS", "0");
    CudaToySession session;
    direct = stepByStep(session, prompt);
  }
  {
    Variable sync("SMELT_CUDA_SYNC", "1");
    CudaToySession session;
    synchronous = stepByStep(session, prompt);
  }
  CHECK(graphs == reference({}));
  CHECK(direct == graphs);
  CHECK(synchronous == graphs);
}

TEST_CASE("Sequences of a batch on a GPU do not see each other") {
  smelt_session_options options = CudaToySession::defaults();
  options.sequences = 3;
  CudaToySession session(ToyShape{}, options);
  std::vector<int32_t> backwards(prompt.rbegin(), prompt.rend());
  std::vector<float> first = reference({}), second = reference({}, backwards);
  for (size_t i = 0; i < prompt.size(); ++i) { // a decode step of two sequences, replayed as a graph
    std::vector<float> logits = session.run({prompt[i], backwards[i]}, {0, 2});
    REQUIRE(std::equal(logits.begin(), logits.begin() + toyVocab, first.begin() + long(i) * toyVocab));
    REQUIRE(std::equal(logits.begin() + toyVocab, logits.end(), second.begin() + long(i) * toyVocab));
  }
  CHECK(session.run(prompt, std::vector<int32_t>(prompt.size(), 1)) == first);
}

TEST_CASE("A sequence cut back on a GPU continues as if the rest had never been") {
  CudaToySession session;
  session.run(prompt);
  REQUIRE(call(smelt_session_truncate, session.session, 0u, 5u).message == "");
  std::vector<float> all = reference({});
  CHECK(session.run({prompt.begin() + 5, prompt.end()}) ==
        std::vector<float>(all.begin() + 5 * toyVocab, all.end()));
}

TEST_CASE("Options in force and memory name the device") {
  smelt_session_options options = CudaToySession::defaults();
  options.device = "cuda:0";
  CudaToySession session(ToyShape{3, 2}, options);
  smelt_session_get_options(session.session, &options);
  CHECK(options.device == std::string("cuda:0"));
  CHECK(options.isa == std::string("cuda:sm_80"));
  smelt_memory memory, planned;
  smelt_session_get_memory(session.session, &memory);
  // The embedding is padded to 8 columns, a layer's experts to 8 x 16 each; all aligned to 256 bytes.
  CHECK(memory.device_weights == 256 + 3 * 256 + 3 * 2 * 256);
  CHECK(memory.weights == 2 * (toyVocab * toyWidth + 3 * (toyWidth + toyExperts * toyWidth)));
  CHECK(memory.state == 6 * 64 * toyWidth * 4);
  CHECK(memory.total ==
        memory.workspace + memory.state + memory.tables + memory.scratch + memory.device_weights);
  options.device = "cuda:sm_80"; // needs no GPU
  Variable none("SMELT_CUDA_LIBRARY", "/nowhere");
  REQUIRE(call(smelt_memory_needed, session.artifact, &options, &planned).message == "");
  CHECK(planned.total == memory.total);
}

TEST_CASE("Probes see on a GPU what they see on the CPU") {
  struct Seen {
    std::string buffer, role;
    int32_t visit, layer;
    int64_t slot;
    uint64_t rows, bytes, firstToken;
    std::string data;
    bool operator==(const Seen &) const = default;
  };
  auto record = [](void *user, const smelt_probe *probe) {
    static_cast<std::vector<Seen> *>(user)->push_back(
        {probe->buffer, probe->role, probe->visit, probe->layer, probe->slot, probe->rows, probe->bytes,
         probe->first_token, std::string(static_cast<const char *>(probe->data), probe->bytes)});
  };
  ToyShape shape{2, 2, VisitOrder::layer};
  std::vector<Seen> onCpu, onGpu;
  smelt_session_options options = CudaToySession::defaults();
  options.max_step_tokens = 3;
  CudaToySession gpu(cudaToyManifest(shape), shape, options, cudaToyCode(), "splat:7");
  REQUIRE(gpu.created.message == "");
  smelt_session_set_probe(gpu.session, record, &onGpu);
  gpu.run({1, 2, 3, 4});
  options.device = "cpu";
  CudaToySession cpu(cpuTwinManifest(shape), shape, options, std::string(toyCode()), "splat:7");
  REQUIRE(cpu.created.message == "");
  smelt_session_set_probe(cpu.session, record, &onCpu);
  cpu.run({1, 2, 3, 4});
  REQUIRE(onGpu.size() == 2 * (1 + 4 * 3 + 1));
  CHECK((onGpu == onCpu));
}

TEST_CASE("Splat weights are the same on the CPU and on a GPU") {
  ToyShape shape{3, 2};
  smelt_session_options options = CudaToySession::defaults();
  CudaToySession gpu(cudaToyManifest(shape), shape, options, cudaToyCode(), "splat:12345");
  CudaToySession other(cudaToyManifest(shape), shape, options, cudaToyCode(), "splat:12346");
  options.device = nullptr;
  CudaToySession cpu(cpuTwinManifest(shape), shape, options, std::string(toyCode()), "splat:12345");
  std::vector<float> logits = gpu.run(prompt);
  CHECK(logits == cpu.run(prompt));
  CHECK(logits != other.run(prompt));
  CHECK(smelt_weights_bytes(gpu.weights) ==
        2 * (toyVocab * toyWidth + 3 * (toyWidth + toyExperts * toyWidth)));
}

TEST_CASE("A profile has the kernels of every program") {
  smelt_session_options options = CudaToySession::defaults();
  options.profile = true;
  options.max_logit_rows = 32;
  CudaToySession session(ToyShape{3, 2}, options);
  session.run(prompt); // the second program
  session.run({1});    // the first
  smelt_kernel_profile first, second;
  REQUIRE(smelt_session_get_profile(session.session, toy::mix, &first));
  REQUIRE(smelt_session_get_profile(session.session, 5 + toy::mix, &second));
  CHECK(!smelt_session_get_profile(session.session, 10, &first));
  CHECK(first.calls == 6);
  CHECK(second.calls == 6);
  CHECK(second.flops == 6 * 10.0 * double(prompt.size()));
  CHECK(second.seconds >= 0);
  smelt_session_reset_profile(session.session);
  REQUIRE(smelt_session_get_profile(session.session, toy::mix, &first));
  CHECK(first.calls == 0);
}

TEST_CASE("An interrupt stops a session on a GPU and does not end it") {
  CudaToySession session;
  smelt_session_interrupt(session.session);
  session.run(prompt);
  CHECK(session.outcome.status == SMELT_interrupted);
  CHECK(smelt_session_length(session.session, 0) == 0);
  CHECK(session.run(prompt) == reference({}));
  // Between two kernels of a step:
  smelt_session_set_probe(
      session.session,
      [](void *user, const smelt_probe *probe) {
        if (probe->role == std::string_view("append")) {
          smelt_session_interrupt(static_cast<smelt_session *>(user));
        }
      },
      session.session);
  session.run({1});
  CHECK(session.outcome.status == SMELT_interrupted);
  CHECK(session.outcome.message == "stopped between two kernels");
  CHECK(smelt_session_length(session.session, 0) == prompt.size());
}

TEST_CASE("Progress is told while weights go to a GPU, and can stop it") {
  struct Calls {
    uint64_t count = 0, done = 0, total = 0;
    int answer = 0;
  } calls;
  smelt_session_options options = CudaToySession::defaults();
  options.progress_user = &calls;
  options.progress = [](void *user, uint64_t done, uint64_t total) {
    auto &calls = *static_cast<Calls *>(user);
    ++calls.count;
    calls.done = done;
    calls.total = total;
    return calls.answer;
  };
  CudaToySession session(ToyShape{}, options);
  CHECK(session.created.message == "");
  CHECK(calls.count >= 2);
  CHECK(calls.done == calls.total);
  calls.answer = 1;
  CudaToySession stopped(ToyShape{}, options);
  CHECK(stopped.created.status == SMELT_interrupted);
  CudaToySession stoppedSplat(cudaToyManifest(), ToyShape{}, options, cudaToyCode(), "splat:1");
  CHECK(stoppedSplat.created.status == SMELT_interrupted);
}
