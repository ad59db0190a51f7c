// The toy model through the C API: handles that close themselves, errors as text.
#pragma once

#include "smelt/runtime.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

namespace smelt::tests {

// The status of a call and its message.
struct Outcome {
  smelt_status status = SMELT_ok;
  std::string message;
};

// Calls a function of the C API whose last argument is the error.
template <typename Function, typename... Arguments> Outcome call(Function function, Arguments... arguments) {
  char *error = nullptr;
  Outcome outcome;
  outcome.status = function(arguments..., &error);
  if (error) {
    outcome.message = error;
  }
  smelt_error_free(error);
  CHECK((outcome.status == SMELT_ok) == outcome.message.empty());
  return outcome;
}

struct ToyFiles {
  explicit ToyFiles(const artifact::ManifestT &manifest, const ToyShape &shape = {},
                    std::string_view code = toyCode()) {
    artifactPath = folder.write("m.smelt", packArtifact(manifest, code));
    weightsPath = folder.write("w.safetensors", toySafetensors(toyWeights(shape)));
  }
  TemporaryFolder folder;
  std::string artifactPath, weightsPath;
};

class ToySession {
public:
  explicit ToySession(const ToyShape &shape = {}, smelt_session_options options = defaults())
      : ToySession(toyManifest(shape), shape, options) {}

  ToySession(const artifact::ManifestT &manifest, const ToyShape &shape, smelt_session_options options,
             std::string_view code = toyCode())
      : files(manifest, shape, code) {
    REQUIRE(call(smelt_artifact_open, files.artifactPath.c_str(), &artifact).message == "");
    const char *path = files.weightsPath.c_str();
    REQUIRE(call(smelt_weights_open, artifact, &path, size_t(1), &weights).message == "");
    created = call(smelt_session_create, artifact, weights, &options, &session);
  }
  ToySession(const ToySession &) = delete;
  ~ToySession() {
    // In an order that shows that the session keeps what it needs.
    smelt_artifact_close(artifact);
    smelt_weights_close(weights);
    smelt_session_destroy(session);
  }

  static smelt_session_options defaults() {
    smelt_session_options options;
    smelt_session_options_init(&options);
    options.capacity = 64;
    options.threads = 1;
    options.min_shared_nanoseconds = 0; // toy kernels are tiny
    return options;
  }

  // Appends tokens of one sequence; logits of all.
  std::vector<float> run(std::vector<int32_t> tokens, int32_t sequence = 0) {
    return run(tokens, std::vector<int32_t>(tokens.size(), sequence));
  }
  std::vector<float> run(const std::vector<int32_t> &tokens, const std::vector<int32_t> &sequences) {
    std::vector<int32_t> rows(tokens.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = int32_t(i);
    }
    smelt_step step = {.tokens = tokens.data(),
                       .token_count = tokens.size(),
                       .positions = nullptr,
                       .sequence_ids = sequences.data(),
                       .logit_rows = rows.data(),
                       .logit_row_count = rows.size()};
    std::vector<float> logits(tokens.size() * toyVocab);
    outcome = forward(step, logits.data());
    CHECK(outcome.message == "");
    return logits;
  }
  Outcome forward(const smelt_step &step, float *logits) {
    return call(smelt_session_forward, session, &step, logits);
  }

  ToyFiles files;
  smelt_artifact *artifact = nullptr;
  smelt_weights *weights = nullptr;
  smelt_session *session = nullptr;
  Outcome created, outcome;
};

} // namespace smelt::tests
