#include "runtime/src/Session.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Sampler.h"
#include "runtime/src/Text.h"
#include "runtime/src/cpu/CpuRunner.h"
#include "runtime/src/cuda/CudaRunner.h"

#include <fmt/format.h>

#include <numeric>
#include <set>

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
  uint64_t vocab = owner->manifest().vocab_size();
  return runSteps(step, runner->extent().logitRows, [&](const StepBatch &batch, size_t firstRow) {
    return runner->run(batch, batch.logitRows.empty() ? nullptr : logits + firstRow * vocab);
  });
}

Status Session::sample(const smelt_step &step, const smelt_sampling &how, const uint64_t *streams,
                       uint64_t drawStep, int32_t *tokens) {
  if (Status status = checkSampling(how); !status.ok()) {
    return status;
  }
  if (step.logit_row_count && !tokens) {
    return fail(SMELT_input, fmt::format("{} tokens are to be drawn, but there is no place for them",
                                         step.logit_row_count));
  }
  std::vector<uint64_t> all(step.logit_row_count);
  std::iota(all.begin(), all.end(), 0);
  if (streams) {
    std::copy_n(streams, all.size(), all.begin());
  }
  uint64_t mostRows = std::min(runner->extent().logitRows, runner->extent().sequences);
  return runSteps(step, mostRows, [&](const StepBatch &batch, size_t firstRow) {
    Sampling sampling{how, std::span(all).subspan(firstRow, batch.logitRows.size()), drawStep};
    return runner->sample(batch, sampling, tokens + firstRow);
  });
}

Status Session::generate(const smelt_generation &generation) {
  size_t count = generation.sequence_count;
  std::vector<int32_t> sequences(count), rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  sequences = rows;
  if (generation.sequence_ids) {
    std::copy_n(generation.sequence_ids, count, sequences.begin());
  }
  std::vector<uint64_t> streams(sequences.begin(), sequences.end());
  if (generation.streams) {
    std::copy_n(generation.streams, count, streams.begin());
  }
  if (std::set<int32_t>(sequences.begin(), sequences.end()).size() != count) {
    return fail(SMELT_input, "a sequence is to be continued twice at once");
  }
  for (int32_t sequence : sequences) {
    uint64_t end = uint64_t(length(uint32_t(sequence))) + generation.steps;
    if (end > runner->extent().capacity) {
      return fail(SMELT_input,
                  fmt::format("{} steps would bring sequence {} to {} positions; the session has room for {}",
                              generation.steps, sequence, end, runner->extent().capacity));
    }
  }
  std::vector<int32_t> tokens(generation.tokens, generation.tokens + count);
  smelt_step step = {};
  step.tokens = tokens.data();
  step.token_count = step.logit_row_count = count;
  step.sequence_ids = sequences.data();
  step.logit_rows = rows.data();
  const Extent &largest = runner->extent();
  if (count <= std::min({largest.tokens, largest.logitRows, largest.sequences})) {
    return generateAtOnce(step, {generation.sampling, streams, generation.first_step}, generation);
  }
  for (uint32_t i = 0; i < generation.steps; ++i) { // a step in several
    std::vector<int32_t> drawn(count);
    Status status =
        sample(step, generation.sampling, streams.data(), generation.first_step + i, drawn.data());
    if (!status.ok() || (generation.deliver && generation.deliver(generation.user, drawn.data()) != 0)) {
      return status;
    }
    tokens.swap(drawn);
    step.tokens = tokens.data();
  }
  return success();
}

// All sequences fit one step: the runner goes from step to step by itself.
Status Session::generateAtOnce(const smelt_step &step, const Sampling &sampling,
                               const smelt_generation &generation) {
  if (Status status = checkSampling(sampling.how); !status.ok()) {
    return status;
  }
  StepLimits limits{owner->manifest().vocab_size(), uint32_t(runner->extent().capacity)};
  if (Status status = input.read(step, lengths, limits); !status.ok() || generation.steps == 0) {
    return status;
  }
  StepBatch batch = batchOf(step, 0, step.token_count, 0, step.logit_row_count);
  return runner->generate(batch, sampling, generation.steps, [&](std::span<const int32_t> tokens) {
    for (size_t i = 0; i < step.token_count; ++i) {
      ++lengths[size_t(step.sequence_ids[i])];
    }
    return !generation.deliver || generation.deliver(generation.user, tokens.data()) == 0;
  });
}

Status Session::runSteps(const smelt_step &step, uint64_t mostRows, const RunStep &run) {
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
      if (rowEnd - row == mostRows) {
        end = size_t(step.logit_rows[rowEnd]); // this row starts the next step
        break;
      }
      ++rowEnd;
    }
    if (Status status = run(batchOf(step, begin, end, row, rowEnd), row); !status.ok()) {
      return status;
    }
    begin = end;
    row = rowEnd;
  }
  lengths.swap(input.lengths);
  return success();
}

StepBatch Session::batchOf(const smelt_step &step, size_t begin, size_t end, size_t rowBegin, size_t rowEnd) {
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
  return batch;
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
