// Choosing tokens on a GPU: the kernels alone and whole runs give the tokens that the CPU gives.
#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "runtime/include/smelt/artifact.h"
#include "runtime/src/Sampler.h"
#include "tests/compiler/Codegen/CUDA/CudaHarness.h"
#include "tests/e2e/Fixture.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <numeric>

using namespace smelt;
using namespace smelt::tests;
using namespace smelt::codegen::test;
using codegen::cuda::StepLength;

namespace {

// The look-alike driver, unless the caller has named another: a real one, on a machine that has it.
const int chosen = setenv("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA_LIBRARY, 0);

struct Outcome {
  std::vector<int32_t> sampled, tokens, positions;
  std::vector<smelt_draw> draws;
};

std::vector<smelt_draw> drawsOf(const std::vector<smelt_sampling> &samplings, bool advance) {
  std::vector<smelt_draw> draws;
  for (const smelt_sampling &sampling : samplings) {
    const runtime::DrawLimits limits = runtime::drawLimits(sampling);
    draws.push_back({.seed = sampling.seed,
                     .stream = draws.size(),
                     .step = 11,
                     .inverse_temperature = limits.inverseTemperature,
                     .share = limits.share,
                     .top_k = limits.topK,
                     .advance = advance});
  }
  return draws;
}

// One row of logits for each of the draws, which are rows of as many tokens at positions 100, 101, ...
Outcome runKernel(const DeviceKernel &kernel, const Floats &logits, const std::vector<smelt_draw> &draws) {
  TestDevice &device = TestDevice::get();
  const size_t rows = draws.size();
  std::vector<int32_t> ids(rows, 7), positions;
  for (size_t r = 0; r < rows; ++r) {
    positions.push_back(int32_t(100 + r));
  }
  const DeviceBuffer values = device.upload(logits), how = device.upload(draws), tokens = device.upload(ids),
                     places = device.upload(positions), sampled = device.allocate(4 * rows);
  kernel.run({values.address(), how.address(), tokens.address(), places.address(), sampled.address()},
             {int32_t(rows)}, {.tokens = int64_t(rows), .logit_rows = int64_t(rows)});
  return {sampled.read<int32_t>(), tokens.read<int32_t>(), places.read<int32_t>(), how.read<smelt_draw>()};
}

Floats someLogits(int64_t vocab, size_t rows, uint32_t seed, float scale) {
  Floats logits = randomFloats(size_t(vocab) * rows, seed, scale);
  for (size_t i = 0; i < logits.size(); i += 3) { // ties, also of the two zeros
    logits[i] = std::round(logits[i] * 2) / 2;
  }
  return logits;
}

int32_t onCpu(const Floats &logits, int64_t vocab, size_t row, const smelt_sampling &sampling) {
  auto token =
      runtime::sample(std::span(logits).subspan(row * size_t(vocab), size_t(vocab)), sampling, row, 11);
  REQUIRE(token.ok());
  return *token;
}

} // namespace

TEST_CASE("argmax on a GPU takes the largest logit, of equals the first") {
  for (const int64_t vocab : {1, 31, 33, 4096, 4097, 9000}) {
    CAPTURE(vocab);
    const DeviceKernel kernel(request("argmax", StepLength::any, {{"vocab", vocab}}));
    const std::vector<smelt_sampling> samplings(5, {.temperature = 0, .top_p = 1, .seed = 0, .top_k = 0});
    Floats logits = someLogits(vocab, samplings.size(), 3, 2);
    for (int64_t i = 0; i < vocab; ++i) {
      logits[size_t(i)] = i % 2 ? 0.0f : -0.0f;  // equal all
      logits[size_t(vocab + i)] = -1e30f;        // as low as can be, the last but little higher
      logits[size_t(2 * vocab + i)] = float(-i); // falling
    }
    logits[size_t(2 * vocab) - 1] = -0.999e30f;
    const Outcome outcome = runKernel(kernel, logits, drawsOf(samplings, false));
    for (size_t row = 0; row < samplings.size(); ++row) {
      CHECK(outcome.sampled[row] == onCpu(logits, vocab, row, samplings[row]));
    }
    CHECK(outcome.tokens == std::vector<int32_t>(samplings.size(), 7));
    CHECK(outcome.positions[4] == 104);
    CHECK(outcome.draws[4].step == 11);
  }
}

TEST_CASE("a draw on a GPU is that of the CPU") {
  std::vector<smelt_sampling> samplings;
  for (const double temperature : {0.7, 1.0, 30.0, 1e-3}) {
    for (const double top_p : {1.0, 0.9, 0.3, 1e-9}) {
      for (const uint32_t top_k : {0u, 1u, 40u, 1u << 30}) {
        samplings.push_back(
            {.temperature = temperature, .top_p = top_p, .seed = samplings.size(), .top_k = top_k});
      }
    }
  }
  for (const int64_t vocab : {1, 32, 33, 500, 5000}) {
    const DeviceKernel kernel(request("sample", StepLength::any, {{"vocab", vocab}}));
    for (const float scale :
         vocab > 1000 ? std::vector<float>{2.0f} : std::vector<float>{0.0f, 1.0f, 20.0f}) {
      CAPTURE(vocab, scale);
      const Floats logits = someLogits(vocab, samplings.size(), 5, scale);
      const Outcome outcome = runKernel(kernel, logits, drawsOf(samplings, true));
      for (size_t row = 0; row < samplings.size(); ++row) {
        CAPTURE(row, samplings[row].temperature, samplings[row].top_p, samplings[row].top_k);
        CHECK(outcome.sampled[row] == onCpu(logits, vocab, row, samplings[row]));
        CHECK(outcome.draws[row].step == 12);
        CHECK(outcome.positions[row] == int32_t(101 + row));
      }
      CHECK(outcome.tokens == outcome.sampled);
    }
  }
}

TEST_CASE("a logit that is not finite is told by its token, and never becomes one") {
  constexpr int64_t vocab = 5000;
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const char *role : {"argmax", "sample"}) {
    CAPTURE(role);
    const DeviceKernel kernel(request(role, StepLength::brief, {{"vocab", vocab}}));
    Floats logits = randomFloats(4 * vocab, 8);
    logits[4321] = nan;
    logits[size_t(vocab) + 17] = inf;
    logits[size_t(vocab) + 4999] = nan;
    logits[size_t(2 * vocab)] = -inf;
    const std::vector<smelt_sampling> samplings(4, {.temperature = 1, .top_p = 0.5, .seed = 1, .top_k = 9});
    const Outcome outcome = runKernel(kernel, logits, drawsOf(samplings, true));
    CHECK(outcome.sampled[0] == -1 - 4321);
    CHECK(outcome.sampled[1] == -1 - 17);
    CHECK(outcome.sampled[2] == -1);
    CHECK(outcome.sampled[3] >= 0);
    CHECK(outcome.tokens == std::vector<int32_t>{0, 0, 0, outcome.sampled[3]});
  }
}

namespace {

// Prompts, then tokens generated by the session itself.
std::vector<std::vector<int32_t>> generate(const RuntimeModel &model, const SessionSettings &settings,
                                           const smelt_sampling &sampling, uint32_t steps) {
  RuntimeSession session(model, settings);
  const std::vector<int32_t> prompt = {3, 1, 2, 0, 5, 4, 1, 1, 2, 3, 5, 0};
  std::vector<int32_t> tokens, sequences, rows, first(settings.sequences);
  for (uint32_t s = 0; s < settings.sequences; ++s) { // of different lengths
    tokens.insert(tokens.end(), prompt.begin() + s, prompt.end());
    sequences.resize(tokens.size(), int32_t(s));
    rows.push_back(int32_t(tokens.size()) - 1);
  }
  const smelt_step step = stepOf(tokens, sequences, rows);
  char *error = nullptr;
  smelt_status status =
      smelt_session_sample(session.get(), &step, &sampling, nullptr, 0, first.data(), &error);
  CAPTURE(error ? error : "");
  REQUIRE(status == SMELT_ok);
  std::vector<std::vector<int32_t>> all = {first};
  smelt_generation generation = {};
  generation.sequence_count = first.size();
  generation.tokens = first.data();
  generation.steps = steps;
  generation.sampling = sampling;
  generation.first_step = 1;
  generation.user = &all;
  generation.deliver = [](void *user, const int32_t *tokens) {
    auto &list = *static_cast<std::vector<std::vector<int32_t>> *>(user);
    list.emplace_back(tokens, tokens + list.front().size());
    return 0;
  };
  status = smelt_session_generate(session.get(), &generation, &error);
  CAPTURE(error ? error : "");
  REQUIRE(status == SMELT_ok);
  REQUIRE(all.size() == 1 + steps);
  REQUIRE(session.length(0) == prompt.size() + steps);
  return all;
}

// The same, by logits that come to the host after every step.
std::vector<std::vector<int32_t>> byLogits(const RuntimeModel &model, const SessionSettings &settings,
                                           const smelt_sampling &sampling, uint32_t steps) {
  RuntimeSession session(model, settings);
  const std::vector<int32_t> prompt = {3, 1, 2, 0, 5, 4, 1, 1, 2, 3, 5, 0};
  const size_t count = settings.sequences, vocab = model.info().vocab_size;
  std::vector<int32_t> tokens, sequences, rows;
  for (size_t s = 0; s < count; ++s) {
    tokens.insert(tokens.end(), prompt.begin() + long(s), prompt.end());
    sequences.resize(tokens.size(), int32_t(s));
    rows.push_back(int32_t(tokens.size()) - 1);
  }
  std::vector<float> logits(count * vocab);
  std::vector<std::vector<int32_t>> all;
  for (uint32_t number = 0; number <= steps; ++number) {
    const smelt_step step = stepOf(tokens, sequences, rows);
    REQUIRE(smelt_session_forward(session.get(), &step, logits.data(), nullptr) == SMELT_ok);
    tokens.resize(count);
    for (size_t s = 0; s < count; ++s) {
      const float *row = logits.data() + s * vocab;
      REQUIRE(smelt_sample(row, uint32_t(vocab), &sampling, s, number, &tokens[s], nullptr) == SMELT_ok);
    }
    sequences.resize(count);
    std::iota(sequences.begin(), sequences.end(), 0);
    rows = sequences;
    all.push_back(tokens);
  }
  return all;
}

} // namespace

TEST_CASE("tokens generated on a GPU are those of its logits, and of the CPU") {
  const RuntimeModel model =
      build(goldenSpec("qwen3-moe-looped"), {Precision::bf16, false, {"cuda:sm_80"}}).model();
  for (const uint32_t sequences : {1u, 3u, 10u}) { // 10: steps of any length
    for (const double temperature : {0.0, 0.8}) {
      CAPTURE(sequences, temperature);
      const smelt_sampling sampling = {.temperature = temperature, .top_p = 0.95, .seed = 5, .top_k = 20};
      SessionSettings gpu, cpu;
      gpu.device = "cuda:0";
      gpu.sequences = cpu.sequences = sequences;
      const auto tokens = generate(model, gpu, sampling, 9);
      CHECK(tokens == byLogits(model, gpu, sampling, 9));
      CHECK(generate(model, cpu, sampling, 9) == byLogits(model, cpu, sampling, 9));
      if (temperature == 0) { // no logits of the two so close that rounding decides
        CHECK(tokens == generate(model, cpu, sampling, 9));
      }
      setenv("SMELT_CUDA_GRAPHS", "0", 1);
      CHECK(generate(model, gpu, sampling, 9) == tokens);
      unsetenv("SMELT_CUDA_GRAPHS");
    }
  }
}

TEST_CASE("generating on a GPU stops when it is told to and goes on from there") {
  const RuntimeModel model =
      build(goldenSpec("qwen3-moe-looped"), {Precision::bf16, false, {"cuda:sm_80"}}).model();
  SessionSettings settings;
  settings.device = "cuda:0";
  RuntimeSession session(model, settings);
  session.append({1, 2, 3});
  struct Taken {
    std::vector<int32_t> tokens;
    size_t most = 0;
  } taken;
  int32_t first = 4;
  smelt_generation generation = {};
  generation.sequence_count = 1;
  generation.tokens = &first;
  generation.steps = 12;
  generation.sampling = {.temperature = 0, .top_p = 1, .seed = 0, .top_k = 0};
  generation.user = &taken;
  generation.deliver = [](void *user, const int32_t *tokens) {
    auto &taken = *static_cast<Taken *>(user);
    taken.tokens.push_back(tokens[0]);
    return int(taken.tokens.size() == taken.most);
  };
  REQUIRE(smelt_session_generate(session.get(), &generation, nullptr) == SMELT_ok);
  REQUIRE(session.length() == 15);
  const std::vector<int32_t> all = std::exchange(taken.tokens, {});
  session.truncate(0, 3);
  for (const size_t most : {5, 7}) {
    taken.most = most;
    REQUIRE(smelt_session_generate(session.get(), &generation, nullptr) == SMELT_ok);
    CHECK(session.length() == 3 + most);
    first = taken.tokens.back();
    generation.steps = 7;
  }
  CHECK(taken.tokens == std::vector<int32_t>(all.begin(), all.begin() + 7));
  // No room for so many, no sequence twice.
  generation.steps = 1000;
  char *error = nullptr;
  CHECK(smelt_session_generate(session.get(), &generation, &error) == SMELT_input);
  CHECK_THAT(error, Catch::Matchers::Contains("1000 steps would bring sequence 0 to 1010 positions"));
  smelt_error_free(error);
}
