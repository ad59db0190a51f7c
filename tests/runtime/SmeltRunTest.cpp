// The smelt-run program on the toy model.
#include "runtime/src/Npy.h"
#include "tests/runtime/ToySession.h"
#include "tests/support/Process.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <sstream>

using namespace smelt::tests;
using namespace smelt::runtime;
using Catch::Matchers::Contains;

namespace {

struct Fixture {
  ToyFiles files{toyManifest()};
  TemporaryFolder out;

  ProcessResult run(std::vector<std::string> extra) {
    std::vector<std::string> arguments = {SMELT_RUN, files.artifactPath, "--weights", files.weightsPath};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    return runProcess(arguments);
  }

  // What greedy decoding must generate.
  static std::vector<int32_t> greedy(std::vector<int32_t> tokens, int count) {
    std::vector<int32_t> generated;
    for (int i = 0; i < count; ++i) {
      std::vector<float> logits = toyReference(toyWeights(), {}, tokens);
      auto last = logits.end() - toyVocab;
      generated.push_back(int32_t(std::max_element(last, logits.end()) - last));
      tokens.push_back(generated.back());
    }
    return generated;
  }

  static std::string line(const std::vector<int32_t> &tokens) {
    std::ostringstream text;
    for (size_t i = 0; i < tokens.size(); ++i) {
      text << (i ? " " : "") << tokens[i];
    }
    return text.str() + "\n";
  }

  static std::vector<float> npyFloats(const std::string &bytes) {
    auto array = parseNpy("out.npy", std::as_bytes(std::span(bytes)));
    REQUIRE(array.ok());
    std::vector<float> values(array->data.size() / 4);
    std::memcpy(values.data(), array->data.data(), array->data.size());
    return values;
  }
};

} // namespace

TEST_CASE_METHOD(Fixture, "Tokens are generated on one line, speed goes to standard error") {
  ProcessResult result = run({"--tokens", "3,1,4", "--max-new-tokens", "5"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == line(greedy({3, 1, 4}, 5)));
  CHECK_THAT(result.err, Contains("model: toy, code x86-64,") && Contains("prefill: 3 tokens in ") &&
                             Contains("decode: 4 tokens in ") && Contains("tokens/s"));
}

TEST_CASE_METHOD(Fixture, "Token files of both kinds") {
  std::string json = out.write("t.json", "[3, 1, 4]");
  std::string npy =
      npyHeader(NpyType::i32, std::vector<uint64_t>{3}) + std::string("\3\0\0\0\1\0\0\0\4\0\0\0", 12);
  for (const std::string &path : {json, out.write("t.npy", npy)}) {
    ProcessResult result = run({"--tokens-file", path, "--max-new-tokens", "2"});
    CHECK(result.exit_code == 0);
    CHECK(result.out == line(greedy({3, 1, 4}, 2)));
  }
}

TEST_CASE_METHOD(Fixture, "A batch prints one line a sequence") {
  ProcessResult result = run({"--batch", "--tokens", "3,1,4", "--tokens", "5", "--max-new-tokens", "3",
                              "--threads", "2", "--chunk", "2"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == line(greedy({3, 1, 4}, 3)) + line(greedy({5}, 3)));
}

TEST_CASE_METHOD(Fixture, "Logits of all prompt positions are written") {
  std::string path = out.path("logits.npy");
  SECTION("one prompt") {
    ProcessResult result = run({"--tokens", "3,1,4,1,5", "--logits", path, "--chunk", "2"});
    CHECK(result.exit_code == 0);
    CHECK(result.out == "");
    std::vector<int32_t> tokens = {3, 1, 4, 1, 5};
    std::string bytes = readFile(path);
    CHECK(parseNpy("", std::as_bytes(std::span(bytes)))->shape == std::vector<uint64_t>{5, toyVocab});
    CHECK(npyFloats(bytes) == toyReference(toyWeights(), {}, tokens));
  }
  SECTION("a batch, then generation") {
    ProcessResult result = run({"--batch", "--tokens-file", out.write("t.json", "[[3,1,4],[5,9,2]]"),
                                "--logits", path, "--max-new-tokens", "2", "--chunk", "4"});
    CHECK(result.exit_code == 0);
    CHECK(result.out == line(greedy({3, 1, 4}, 2)) + line(greedy({5, 9, 2}, 2)));
    std::string bytes = readFile(path);
    CHECK(parseNpy("", std::as_bytes(std::span(bytes)))->shape == std::vector<uint64_t>{2, 3, toyVocab});
    std::vector<int32_t> first = {3, 1, 4}, second = {5, 9, 2};
    std::vector<float> expected = toyReference(toyWeights(), {}, first),
                       more = toyReference(toyWeights(), {}, second);
    expected.insert(expected.end(), more.begin(), more.end());
    CHECK(npyFloats(bytes) == expected);
  }
}

TEST_CASE_METHOD(Fixture, "JSON output holds everything") {
  ProcessResult result = run({"--tokens", "3,1,4", "--max-new-tokens", "3", "--json", "--profile"});
  REQUIRE(result.exit_code == 0);
  nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json["model"] == "toy");
  CHECK(json["isa"] == "x86-64");
  CHECK(json["sequences"][0]["prompt"] == std::vector<int32_t>{3, 1, 4});
  CHECK(json["sequences"][0]["generated"] == greedy({3, 1, 4}, 3));
  CHECK(json["prefill"]["tokens"] == 3);
  CHECK(json["decode"]["tokens"] == 2);
  CHECK(json["memory"]["weight_bytes"] == 4 * (11 * 4 + 9 * 4));
  CHECK(json["profile"].size() == 5);
}

TEST_CASE_METHOD(Fixture, "Sampling is repeatable") {
  std::vector<std::string> options = {"--tokens", "3", "--temperature", "3", "--top-p", "0.9", "--seed", "7"};
  ProcessResult first = run(options), second = run(options);
  CHECK(first.exit_code == 0);
  CHECK(first.out == second.out);
  options.back() = "8";
  CHECK(run(options).out != first.out);
}

TEST_CASE_METHOD(Fixture, "A profile lists the kernels") {
  ProcessResult result = run({"--tokens", "3", "--profile"});
  CHECK_THAT(result.err, Contains("GFLOP/s") && Contains("toy_mix") && Contains("toy_head"));
}

TEST_CASE_METHOD(Fixture, "Errors have their exit codes and name what is wrong") {
  auto expect = [&](std::vector<std::string> options, int code, const std::string &message) {
    ProcessResult result = run(options);
    INFO(result.err);
    CHECK(result.exit_code == code);
    CHECK(result.out == "");
    CHECK_THAT(result.err, Catch::Matchers::StartsWith("smelt-run: ") && Contains(message));
  };
  expect({}, SMELT_usage, "Exactly 1 option from [--tokens,--tokens-file] is required");
  expect({"--tokens", "1", "--tokens-file", "x"}, SMELT_usage,
         "Exactly 1 option from [--tokens,--tokens-file] is required");
  expect({"--tokens", "1", "--threads", "x"}, SMELT_usage, "threads");
  expect({"--tokens", "1,x"}, SMELT_input, "--tokens: token 1 is 'x', not a 32-bit integer");
  expect({"--tokens", "1,,2"}, SMELT_input, "token 1 is ''");
  expect({"--tokens", "1,11"}, SMELT_input, "token 1 of prompt 0 is 11");
  expect({"--tokens", "1", "--tokens", "2"}, SMELT_input, "there are 2 prompts; add --batch");
  expect({"--tokens", "1", "--temperature", "-1"}, SMELT_input, "temperature is -1");
  expect({"--tokens", "1", "--top-p", "2"}, SMELT_input, "top_p is 2");
  expect({"--tokens-file", out.path("none.json")}, SMELT_io, "none.json: cannot be opened: No such file");
  expect({"--tokens-file", out.write("a.json", "{}")}, SMELT_input, "is not a JSON list of token ids");
  expect({"--tokens-file", out.write("b.json", "[1, 2.5]")}, SMELT_input,
         "item 1 is 2.5, not a 32-bit integer");
  expect({"--batch", "--tokens-file", out.write("c.json", "[[1], [99999999999]]")}, SMELT_input,
         "item 1.0 is 99999999999");
  expect({"--batch", "--tokens-file", out.write("d.json", "[[1], []]")}, SMELT_input,
         "prompt 1 has no tokens");
  expect({"--tokens-file", out.write("e.npy", npyHeader(NpyType::f32, std::vector<uint64_t>{1}) + "1234")},
         SMELT_input, "token ids must be int32 or int64");
  expect({"--batch", "--tokens-file", out.write("f.json", "[[1], [1, 2]]"), "--logits", out.path("x.npy")},
         SMELT_input, "--logits needs prompts of one length, these have 1 and 2 tokens");
  expect({"--tokens", "1", "--logits", out.path("none/x.npy")}, SMELT_io, "none/x.npy: cannot be created");
  expect({"--tokens", "1", "--logits", "/dev/full"}, SMELT_io,
         "/dev/full: cannot be written: No space left on device");
  expect({"--tokens", "1", "--isa", "x86-64-v3"}, SMELT_unsupported, "has no code for 'x86-64-v3'");
  expect({"--tokens", "1", "--max-new-tokens", "2000000000"}, SMELT_memory, "the session needs");
  expect({"--tokens", "1", "--max-new-tokens", "4294967295"}, SMELT_input, "are too many");
  files.artifactPath = out.write("bad.smelt", "SMELTART");
  expect({"--tokens", "1"}, SMELT_artifact, "bad.smelt: is not a smelt artifact");
}

TEST_CASE_METHOD(Fixture, "Weights that do not fit end the run") {
  files.weightsPath = out.write("w.safetensors", packSafetensors({{"x", "F32", {1}, "1234"}}));
  ProcessResult result = run({"--tokens", "1", "--logits", out.path("l.npy")});
  CHECK(result.exit_code == SMELT_weights);
  CHECK_THAT(result.err, Contains("missing:"));
  CHECK(out.count() == 1); // no logits
}

TEST_CASE_METHOD(Fixture, "SIGINT ends a run cleanly") {
  std::vector<std::string> arguments = {
      SMELT_RUN, files.artifactPath, "--weights",       files.weightsPath,  "--tokens",
      "1",       "--logits",         out.path("l.npy"), "--max-new-tokens", "1000000"};
  // A shell stops the run once tokens have come.
  std::string command = "out=$(mktemp); \"$@\" > \"$out\" & pid=$!; "
                        "while [ ! -s \"$out\" ]; do sleep 0.01; done; kill -INT $pid; wait $pid; code=$?; "
                        "tail -c 1 \"$out\" | od -An -tx1; rm -f \"$out\"; exit $code";
  std::vector<std::string> shell = {"/bin/bash", "-m", "-c", command, "sh"};
  shell.insert(shell.end(), arguments.begin(), arguments.end());
  ProcessResult result = runProcess(shell);
  CHECK(result.exit_code == SMELT_interrupted);
  CHECK(result.out == " 0a\n"); // the line of tokens is complete
  CHECK_THAT(result.err, Contains("smelt-run: error: stopped by a signal"));
  CHECK(out.count() == 0); // neither logits nor a temporary file
}

TEST_CASE_METHOD(Fixture, "A closed or full standard output is an io error") {
  std::string command = "\"$@\" > /dev/full";
  ProcessResult result = runProcess({"/bin/bash", "-c", command, "sh", SMELT_RUN, files.artifactPath,
                                     "--weights", files.weightsPath, "--tokens", "1"});
  CHECK(result.exit_code == SMELT_io);
  CHECK_THAT(result.err, Contains("standard output cannot be written: No space left on device"));
}

TEST_CASE_METHOD(Fixture, "A file size limit is an io error that leaves nothing behind") {
  std::string command = "ulimit -f 1; \"$@\"";
  std::vector<std::string> shell = {
      "/bin/bash",       "-c",       command,           "sh",      SMELT_RUN, files.artifactPath, "--weights",
      files.weightsPath, "--logits", out.path("l.npy"), "--tokens"};
  std::string tokens = "1";
  for (int i = 0; i < 100; ++i) {
    tokens += ",1";
  }
  shell.push_back(tokens);
  ProcessResult result = runProcess(shell);
  CHECK(result.exit_code == SMELT_io);
  CHECK_THAT(result.err, Contains("l.npy: cannot be written: File too large"));
  CHECK(out.count() == 0);
}

TEST_CASE("Help lists the options") {
  ProcessResult result = runProcess({SMELT_RUN, "--help"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("--max-new-tokens") && Contains("--tokens-file"));
}
