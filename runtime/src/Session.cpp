#include "runtime/src/Session.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Text.h"
#include "runtime/src/cpu/CpuRunner.h"
#include "runtime/src/cuda/CudaRunner.h"

#include <fmt/format.h>

namespace smelt::runtime {

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Artifact> artifact,
                                                 std::shared_ptr<const BoundWeights> weights,
                                                 smelt_session_options options) {
  if (weights->artifact() != artifact) {
    return fail(SMELT_input, "the weights were bound for another artifact; bind them for this one");
  }
  std::string_view device = options.device ? options.device : "cpu";
  if (device != "cpu" && !cuda::parseDevice(device)) {
    return fail(SMELT_input,
                fmt::format("device '{}' is unknown; cpu, cuda, or cuda:N with N from 0 expected",
                            printable(device)));
  }
  if (device != "cpu" && options.weights_cache) {
    return fail(SMELT_input,
                fmt::format("a weights cache holds what CPUs read; device '{}' has no use for it",
                            printable(device)));
  }
  Result<std::unique_ptr<StepRunner>> runner =
      device == "cpu" ? CpuRunner::create(artifact, std::move(weights), options)
                      : cuda::CudaRunner::create(artifact, std::move(weights), options);
  if (!runner.ok()) {
    return runner.takeStatus();
  }
  std::unique_ptr<Session> session(new Session);
  session->owner = std::move(artifact);
  session->resolved = options;
  session->runner = std::move(*runner);
  session->lengths.resize(options.sequences);
  session->touched.resize(options.sequences);
  return session;
}

Status Session::forward(const smelt_step &step, float *logits) {
  if (step.logit_row_count && !logits) {
    return fail(SMELT_input, fmt::format("{} logit rows are asked for, but there is no place for them",
                                         step.logit_row_count));
  }
  const Extent &largest = runner->extent();
  StepLimits limits{owner->manifest().vocab_size(), uint32_t(largest.capacity)};
  if (Status status = input.read(step, lengths, limits); !status.ok()) {
    return status;
  }
  size_t row = 0;
  for (size_t begin = 0; begin < step.token_count;) {
    size_t end = std::min<size_t>(begin + largest.tokens, step.token_count);
    size_t rowEnd = row;
    while (rowEnd < step.logit_row_count && size_t(step.logit_rows[rowEnd]) < end) {
      if (rowEnd - row == largest.logitRows) {
        end = size_t(step.logit_rows[rowEnd]); // this row starts the next step
        break;
      }
      ++rowEnd;
    }
    if (Status status = runChunk(step, begin, end, row, rowEnd, logits); !status.ok()) {
      return status;
    }
    begin = end;
    row = rowEnd;
  }
  lengths.swap(input.lengths);
  return success();
}

Status Session::runChunk(const smelt_step &step, size_t begin, size_t end, size_t rowBegin, size_t rowEnd,
                         float *logits) {
  rows.clear();
  for (size_t i = rowBegin; i < rowEnd; ++i) {
    rows.push_back(step.logit_rows[i] - int32_t(begin));
  }
  StepBatch batch;
  batch.tokens = {step.tokens + begin, end - begin};
  batch.positions = std::span<const int32_t>(input.positions).subspan(begin, end - begin);
  batch.sequenceIds = std::span<const int32_t>(input.sequenceIds).subspan(begin, end - begin);
  batch.logitRows = rows;
  batch.firstToken = begin;
  batch.cachedPositions = cachedPositions(begin, end);
  uint64_t vocab = owner->manifest().vocab_size();
  return runner->run(batch, rows.empty() ? nullptr : logits + rowBegin * vocab);
}

uint64_t Session::cachedPositions(size_t begin, size_t end) {
  uint64_t positions = 0;
  touched.assign(touched.size(), false);
  for (size_t i = end; i-- > begin;) { // from the last token, whose position is the sequence's length
    size_t sequence = size_t(input.sequenceIds[i]);
    if (!touched[sequence]) {
      touched[sequence] = true;
      positions += uint64_t(input.positions[i]) + 1;
    }
  }
  return positions;
}

Status Session::truncate(uint32_t sequence, uint32_t length) {
  if (sequence >= lengths.size()) {
    return fail(SMELT_input,
                fmt::format("sequence {} does not exist, the session has {}", sequence, lengths.size()));
  }
  if (length > lengths[sequence]) {
    return fail(SMELT_input, fmt::format("sequence {} holds {} positions and cannot be cut to {}", sequence,
                                         lengths[sequence], length));
  }
  lengths[sequence] = length;
  return success();
}

Result<smelt_memory> memoryNeeded(const Artifact &artifact, smelt_session_options options) {
  if (Status status = resolveOptions(options); !status.ok()) {
    return status;
  }
  std::string_view device = options.device ? options.device : "cpu";
  if (device == "cpu") {
    Result<MemoryPlan> plan = planMemory(artifact, options);
    return plan.ok() ? Result(plan->memory) : plan.takeStatus();
  }
  Result<cuda::DevicePlan> plan = cuda::planFor(artifact, options);
  return plan.ok() ? Result(plan->memory) : plan.takeStatus();
}

} // namespace smelt::runtime
