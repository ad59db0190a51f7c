// The toy model in a session on the look-alike GPU, and the environment that describes it.
#pragma once

#include "tests/runtime/CudaToy.h"
#include "tests/runtime/ToySession.h"

#include <map>
#include <optional>

namespace smelt::tests {

// Sets an environment variable and restores it.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) {
    if (const char *old = std::getenv(name)) {
      before = old;
    }
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before ? setenv(name, before->c_str(), 1) : unsetenv(name); }
  Variable(const Variable &) = delete;

private:
  const char *name;
  std::optional<std::string> before;
};

struct CudaToySession {
  explicit CudaToySession(const ToyShape &shape = {}, smelt_session_options options = defaults())
      : CudaToySession(cudaToyManifest(shape), shape, options) {}
  CudaToySession(const artifact::ManifestT &manifest, const ToyShape &shape, smelt_session_options options,
                 const std::string &code = cudaToyCode(), const char *weightsFrom = nullptr) {
    std::string path = folder.write("m.smelt", packArtifact(manifest, code));
    std::string file =
        weightsFrom ? weightsFrom : folder.write("w.safetensors", cudaToySafetensors(cudaToyWeights(shape)));
    REQUIRE(call(smelt_artifact_open, path.c_str(), &artifact).message == "");
    const char *weightsPath = file.c_str();
    REQUIRE(call(smelt_weights_open, artifact, &weightsPath, size_t(1), &weights).message == "");
    created = call(smelt_session_create, artifact, weights, &options, &session);
  }
  CudaToySession(const CudaToySession &) = delete;
  ~CudaToySession() {
    smelt_artifact_close(artifact);
    smelt_weights_close(weights);
    smelt_session_destroy(session);
  }

  static smelt_session_options defaults() {
    smelt_session_options options = ToySession::defaults();
    options.device = "cuda";
    return options;
  }

  // Appends tokens, one of a sequence each time or all of sequence 0; logits of all.
  std::vector<float> run(const std::vector<int32_t> &tokens, std::vector<int32_t> sequences = {}) {
    std::vector<int32_t> rows(tokens.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i] = int32_t(i);
    }
    sequences.resize(tokens.size());
    smelt_step step = {.tokens = tokens.data(),
                       .token_count = tokens.size(),
                       .positions = nullptr,
                       .sequence_ids = sequences.data(),
                       .logit_rows = rows.data(),
                       .logit_row_count = rows.size()};
    std::vector<float> logits(tokens.size() * toyVocab);
    outcome = call(smelt_session_forward, session, &step, logits.data());
    return logits;
  }

  Variable library{"SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA};
  TemporaryFolder folder;
  smelt_artifact *artifact = nullptr;
  smelt_weights *weights = nullptr;
  smelt_session *session = nullptr;
  Outcome created, outcome;
};

} // namespace smelt::tests
