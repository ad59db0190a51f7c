// Long steps whose dense products a library multiplies: the stand-in for cuBLASLt on the look-alike driver,
// against the interpreter and against the artifact's own kernels.
#include "tests/e2e/Fixture.h"
#include "tests/e2e/Routing.h"
#include "tests/support/Compare.h"
#include "tests/support/InterpretedModel.h"
#include "tests/support/TempFolder.h"

#include <catch2/catch.hpp>
#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

using namespace smelt;
using namespace smelt::tests;
using Catch::Matchers::Contains;

namespace {

constexpr double LOGIT_TOLERANCE = 1e-2; // relative L2
constexpr double ROUTER_TOLERANCE = 3e-2;

const int chosen = setenv("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA_LIBRARY, 0);

// An environment variable while it lives.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name); }
  Variable(const Variable &) = delete;

private:
  const char *name;
};

Built buildForCuda(const spec::ModelSpec &spec) {
  return build(spec, CompileSettings{Precision::bf16, false, {"cuda:sm_80"}});
}

SessionSettings onCuda(const std::string &gemm = "", uint32_t max_step_tokens = 0) {
  SessionSettings settings;
  settings.device = "cuda:0";
  settings.gemm = gemm;
  settings.max_step_tokens = max_step_tokens;
  return settings;
}

// Products that the stand-in has been given so far.
uint64_t products() {
  void *library = dlopen(SMELT_TEST_CUBLAS_LIBRARY, RTLD_NOW);
  REQUIRE(library);
  return reinterpret_cast<uint64_t (*)()>(dlsym(library, "smelt_test_cublas_products"))();
}

uint64_t productsOf(RuntimeSession &session, const std::vector<int32_t> &tokens) {
  const uint64_t before = products();
  session.append(tokens);
  return products() - before;
}

std::string gemmOf(RuntimeSession &session) { return smelt_session_gemm(session.get()); }

std::string optionOf(RuntimeSession &session) {
  smelt_session_options options;
  smelt_session_get_options(session.get(), &options);
  return options.gemm;
}

// A step of `count` sequences, a token each; logits of all.
std::vector<PlacedToken> oneEach(int32_t count, int32_t vocab, int32_t seed) {
  std::vector<PlacedToken> placed;
  for (int32_t i = 0; i < count; ++i) {
    placed.push_back({i, (i * 7 + seed) % vocab});
  }
  return placed;
}

} // namespace

TEST_CASE("cuBLASLt multiplies dense matrices of long steps, and the interpreter agrees") {
  const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUBLAS_LIBRARY);
  // Experts alone; shared experts, a dense layer and biases; dense layers alone; no size a multiple of 8.
  for (const spec::ModelSpec &spec : {goldenSpec("qwen3-moe-looped"), goldenSpec("glm4-moe-looped"),
                                      goldenSpec("qwen2-dense"), raggedSpec()}) {
    CAPTURE(spec.name);
    const Built built = buildForCuda(spec);
    const InterpretedModel oracle(spec, built.weights, {Precision::bf16, false});
    const RuntimeModel model = built.model();
    const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 45, 4);
    const bool large = spec.name == raggedSpec().name;
    // At once; a long step and a short one.
    for (const uint32_t step : large ? std::vector<uint32_t>{37} : std::vector<uint32_t>{0, 37}) {
      CAPTURE(step);
      RuntimeSession session(model, onCuda("", step));
      CHECK(gemmOf(session) == "cuBLASLt 13.0.0");
      CHECK(optionOf(session) == "cublas");
      const uint64_t before = products();
      std::vector<RoutingChoice> routing;
      session.recordRouting(routing, spec.moe ? spec.moe->top_k : 0);
      const Logits logits = session.append(tokens);
      CHECK(products() > before);
      const Interpretation expected = oracle.run(tokens, routing);
      requireSameRouting(routing, expected.routing, ROUTER_TOLERANCE);
      REQUIRE(relativeL2(logits.values, expected.logits) <= LOGIT_TOLERANCE);

      if (large) {
        break;
      }
      // The same bits every time: launched directly, captured, replayed, in another session.
      RuntimeSession again(model, onCuda("cublas", step));
      for (int time = 0; time < 3; ++time) {
        CHECK(again.append(tokens).values == logits.values);
        again.truncate(0, 0);
      }
    }
  }
}

TEST_CASE("A library takes every dense product of a step of 32 rows, and none of a shorter one") {
  const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUBLAS_LIBRARY);
  const spec::ModelSpec spec = goldenSpec("qwen3-moe-looped");
  const RuntimeModel model = buildForCuda(spec).model();
  // Q, K, V and O of every executed layer, and the head.
  uint64_t executed = 0;
  for (const spec::Segment &segment : spec.segments) {
    executed += uint64_t(segment.layers) * uint64_t(segment.visits);
  }
  RuntimeSession session(model, onCuda());
  CHECK(productsOf(session, randomTokens(spec.vocab_size, 32, 1)) == 4 * executed + 1);
  CHECK(productsOf(session, randomTokens(spec.vocab_size, 31, 2)) == 0);
  CHECK(productsOf(session, randomTokens(spec.vocab_size, 8, 3)) == 0);
  RuntimeSession own(model, onCuda("own"));
  CHECK(gemmOf(own) == "own kernels");
  CHECK(optionOf(own) == "own");
  CHECK(productsOf(own, randomTokens(spec.vocab_size, 32, 1)) == 0);
  // Nothing is opened, nor are 32 MiB kept, for steps that are never long.
  RuntimeSession brief(model, onCuda("", 31));
  CHECK(gemmOf(brief) == "own kernels");
  smelt_memory with, without;
  smelt_session_get_memory(session.get(), &with);
  smelt_session_get_memory(own.get(), &without);
  CHECK(with.scratch - without.scratch == 32 << 20);
}

TEST_CASE("With own kernels a token's logits do not depend on the rows of its step; with a library they agree") {
  const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUBLAS_LIBRARY);
  const spec::ModelSpec spec = goldenSpec("glm4-moe-looped");
  const RuntimeModel model = buildForCuda(spec).model();
  const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 75, 9);
  RuntimeSession whole(model, onCuda("own"));
  const Logits expected = whole.append(tokens);
  for (const uint32_t step : {15u, 33u, 66u}) { // all pieces have more than 8 tokens: one program
    CAPTURE(step);
    RuntimeSession pieces(model, onCuda("own", step));
    CHECK(pieces.append(tokens).values == expected.values);
  }
  RuntimeSession cublas(model, onCuda("cublas", 40));
  const Logits logits = cublas.append(tokens);
  CHECK(relativeL2(logits.values, std::vector<double>(expected.values.begin(), expected.values.end())) <=
        LOGIT_TOLERANCE);
}

TEST_CASE("A batch decodes through cuBLASLt, its head included, in graphs without inputs too") {
  const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUBLAS_LIBRARY);
  const spec::ModelSpec spec = goldenSpec("qwen3-moe-looped");
  const RuntimeModel model = buildForCuda(spec).model();
  SessionSettings settings = onCuda();
  settings.sequences = 33;
  RuntimeSession forward(model, settings), generating(model, settings);
  // Step by step, the largest logit of each row next.
  std::vector<std::vector<int32_t>> expected;
  std::vector<PlacedToken> placed = oneEach(33, int32_t(spec.vocab_size), 5);
  std::vector<int32_t> first, sequences;
  for (const PlacedToken &token : placed) {
    first.push_back(token.token);
    sequences.push_back(token.sequence);
  }
  const uint64_t before = products();
  for (int step = 0; step < 4; ++step) {
    const Logits logits = forward.append(placed);
    std::vector<int32_t> &next = expected.emplace_back();
    for (size_t row = 0; row < placed.size(); ++row) {
      const std::vector<float> values = logits.row(row);
      next.push_back(int32_t(std::max_element(values.begin(), values.end()) - values.begin()));
      placed[row].token = next.back();
    }
  }
  CHECK(products() > before);
  std::vector<std::vector<int32_t>> generated;
  smelt_generation generation = {};
  smelt_sampling_init(&generation.sampling);
  generation.sequence_ids = sequences.data();
  generation.tokens = first.data();
  generation.sequence_count = sequences.size();
  generation.steps = 4;
  generation.deliver = [](void *user, const int32_t *tokens) {
    static_cast<std::vector<std::vector<int32_t>> *>(user)->emplace_back(tokens, tokens + 33);
    return 0;
  };
  generation.user = &generated;
  char *error = nullptr;
  const smelt_status status = smelt_session_generate(generating.get(), &generation, &error);
  CAPTURE(error ? error : "");
  REQUIRE(status == SMELT_ok);
  CHECK(generated == expected);
}

TEST_CASE("Products that cuBLASLt has no algorithm for are left to the artifact's kernels") {
  const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUBLAS_LIBRARY);
  const spec::ModelSpec spec = goldenSpec("glm4-moe-looped");
  const RuntimeModel model = buildForCuda(spec).model();
  const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 33, 4);
  RuntimeSession own(model, onCuda("own"));
  const Logits expected = own.append(tokens);
  for (const char *plan : {"cublasLtMatmulAlgoGetHeuristic:0", "cublasLtMatmulAlgoGetHeuristic:15"}) {
    CAPTURE(plan);
    const Variable fail("SMELT_TEST_CUBLAS_FAIL", plan);
    RuntimeSession automatic(model, onCuda());
    CHECK(automatic.append(tokens).values == expected.values);
    CHECK_THAT(gemmOf(automatic), Contains("own kernels for") && Contains("it has no algorithm for"));
    RuntimeSession asked(model, onCuda("cublas"));
    CHECK_THROWS_WITH(asked.append(tokens), Contains("cuBLASLt 13.0.0 cannot multiply 33 x") &&
                                                Contains("it has no algorithm") && Contains("--gemm auto"));
  }
}

TEST_CASE("A product that fails is told with its sizes, status and kernel, and ends the session") {
  const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUBLAS_LIBRARY);
  const spec::ModelSpec spec = goldenSpec("qwen3-dense");
  const RuntimeModel model = buildForCuda(spec).model();
  const std::vector<int32_t> tokens = randomTokens(spec.vocab_size, 33, 4);
  RuntimeSession session(model, onCuda());
  {
    const Variable fail("SMELT_TEST_CUBLAS_FAIL", "cublasLtMatmul:14");
    CHECK_THROWS_WITH(session.append(tokens), Contains("cuBLASLt 13.0.0 cannot multiply 33 x") &&
                                                  Contains("CUBLAS_STATUS_INTERNAL_ERROR (14)") &&
                                                  Contains("layer 0"));
  }
  CHECK_THROWS_WITH(session.append(tokens), Contains("cannot go on after an earlier failure"));
  const Variable fail("SMELT_TEST_CUBLAS_FAIL", "cublasLtMatmulAlgoGetHeuristic:7");
  RuntimeSession next(model, onCuda());
  CHECK_THROWS_WITH(next.append(tokens),
                    Contains("choosing an algorithm: CUBLAS_STATUS_INVALID_VALUE (7)"));
}

TEST_CASE("A cuBLASLt that was asked for and cannot be had is refused, with what to do") {
  const RuntimeModel model = buildForCuda(goldenSpec("qwen3-dense")).model();
  auto refusal = [&](const std::string &gemm) -> std::string {
    try {
      RuntimeSession session(model, onCuda(gemm));
      return "";
    } catch (const RuntimeError &error) {
      CHECK(error.status == (gemm == "fast" ? SMELT_input : SMELT_unsupported));
      return error.what();
    }
  };
  // None is named: fine, unless it is asked for.
  CHECK(refusal("") == "");
  CHECK(refusal("own") == "");
  CHECK_THAT(refusal("cublas"), Contains("libcublasLt.so.13") && Contains("SMELT_CUBLAS_LIBRARY") &&
                                    Contains("--gemm own"));
  CHECK_THAT(refusal("fast"), Contains("gemm is 'fast', must be auto, own or cublas"));
  for (const char *gemm : {"", "cublas"}) {
    CAPTURE(gemm);
    {
      const Variable library("SMELT_CUBLAS_LIBRARY", "/nowhere/libcublasLt.so");
      CHECK_THAT(refusal(gemm), Contains("names '/nowhere/libcublasLt.so'") && Contains("No such file"));
      CHECK(refusal("own") == "");
    }
    {
      const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUDA_LIBRARY);
      CHECK_THAT(refusal(gemm), Contains("lacks these functions") && Contains("cublasLtMatmul") &&
                                    Contains("cublasLtCreate"));
    }
    {
      const Variable library("SMELT_CUBLAS_LIBRARY", SMELT_TEST_CUBLAS_LIBRARY);
      const Variable fail("SMELT_TEST_CUBLAS_FAIL", "cublasLtCreate:1");
      CHECK_THAT(refusal(gemm), Contains("cannot be started: CUBLAS_STATUS_NOT_INITIALIZED (1)"));
    }
  }
  // Another name is another library, whose version is asked again.
  const TempFolder folder;
  const std::string other = folder.file("libother.so");
  std::filesystem::copy_file(SMELT_TEST_CUBLAS_LIBRARY, other);
  const Variable library("SMELT_CUBLAS_LIBRARY", other);
  const Variable version("SMELT_TEST_CUBLAS_VERSION", "110805");
  CHECK_THAT(refusal(""), Contains("is cuBLASLt 11.8.5, 12 or 13 expected"));
}

TEST_CASE("The CPU has no cuBLASLt to ask for") {
  const spec::ModelSpec spec = goldenSpec("qwen3-dense");
  const RuntimeModel model = build(spec).model();
  SessionSettings settings;
  settings.gemm = "cublas";
  CHECK_THROWS_WITH(RuntimeSession(model, settings), Contains("gemm is 'cublas'") && Contains("--device cuda"));
  settings.gemm = "own";
  RuntimeSession session(model, settings);
  CHECK(gemmOf(session).empty());
}
