// What a run prints besides its tokens.
#pragma once

#include "runtime/tools/smelt-run/RunModel.h"
#include "runtime/tools/smelt-run/TokenInput.h"

namespace smelt::runtime {

struct RunPhase {
  uint64_t tokens = 0;
  double seconds = 0;

  double tokensPerSecond() const { return seconds > 0 ? double(tokens) / seconds : 0; }
};

struct RunResult {
  std::vector<Prompt> prompts;
  std::vector<Prompt> generated; // by prompt
  RunPhase prefill;              // the prompts, up to the logits of their last tokens
  RunPhase decode;               // every token after the first, sampling included
};

// Model, variant, memory, speed; the profile when the session has one.
std::string textReport(const RunModel &model, const RunResult &result);
// The same as one JSON object, with the tokens. Keys are documented in docs/artifact.md.
std::string jsonReport(const RunModel &model, const RunResult &result);

} // namespace smelt::runtime
