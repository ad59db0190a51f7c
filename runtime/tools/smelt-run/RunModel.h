// An artifact with its weights and a session, through the C API, with errors as Status.
#pragma once

#include "runtime/src/Status.h"
#include "smelt/runtime.h"

#include <memory>
#include <string>
#include <vector>

namespace smelt::runtime {

struct RunModel {
  struct Close {
    void operator()(smelt_artifact *artifact) const { smelt_artifact_close(artifact); }
    void operator()(smelt_weights *weights) const { smelt_weights_close(weights); }
    void operator()(smelt_session *session) const { smelt_session_destroy(session); }
  };
  std::unique_ptr<smelt_artifact, Close> artifact;
  std::unique_ptr<smelt_weights, Close> weights;
  std::unique_ptr<smelt_session, Close> session;
  smelt_artifact_info info = {};

  Status openArtifact(const std::string &path);
  Status openWeights(const std::vector<std::string> &paths);
  // Reads the weights into memory when they fit; shows progress when standard error is a terminal.
  Status preload();
  // Packs the weights, or on a GPU copies them to it, with the same progress. Notices go to standard error as
  // "PROGRAM: note: text".
  Status createSession(smelt_session_options options, const std::string &program);
  Status forward(const smelt_step &step, float *logits);
  // See smelt_session_sample, for the first draw of every sequence, and smelt_session_generate.
  Status sample(const smelt_step &step, const smelt_sampling &sampling, int32_t *tokens);
  Status generate(const smelt_generation &generation);
};

} // namespace smelt::runtime
