#include "runtime/src/StepRunner.h"

#include "runtime/src/Sampler.h"

namespace smelt::runtime {

Status StepRunner::sample(const StepBatch &batch, const Sampling &sampling, int32_t *tokens) {
  size_t rows = batch.logitRows.size();
  sampledLogits.resize(rows * vocabSize);
  if (Status status = run(batch, sampledLogits.data()); !status.ok()) {
    return status;
  }
  for (size_t r = 0; r < rows; ++r) {
    Result<int32_t> token = runtime::sample(std::span(sampledLogits).subspan(r * vocabSize, vocabSize),
                                            sampling.how, sampling.streams[r], sampling.step);
    if (!token.ok()) {
      return token.takeStatus();
    }
    tokens[r] = *token;
  }
  return success();
}

Status StepRunner::generate(const StepBatch &batch, const Sampling &sampling, uint32_t steps,
                            const TokenSink &sink) {
  std::vector<int32_t> tokens(batch.tokens.begin(), batch.tokens.end());
  std::vector<int32_t> positions(batch.positions.begin(), batch.positions.end());
  StepBatch next = batch;
  next.tokens = tokens;
  next.positions = positions;
  Sampling now = sampling;
  for (uint32_t i = 0; i < steps; ++i) {
    if (Status status = sample(next, now, tokens.data()); !status.ok()) {
      return status;
    }
    if (!sink(tokens)) {
      return success();
    }
    for (int32_t &position : positions) {
      ++position;
    }
    ++now.step;
    next.cachedPositions += next.cachedPositions ? tokens.size() : 0;
  }
  return success();
}

} // namespace smelt::runtime
