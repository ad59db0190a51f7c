// Steps whose tokens are chosen on the GPU, alone or one after the other.
#include "runtime/src/Sampler.h"
#include "runtime/src/cuda/CudaRunner.h"

#include <algorithm>

namespace smelt::runtime::cuda {

namespace {

// Steps that are started before the tokens of the first of them are awaited: the GPU never waits for the
// host.
constexpr uint32_t ahead = 2;
static_assert(ahead < sampledSlots);

StepEnd endOf(const Sampling &sampling) {
  return sampling.how.temperature == 0 ? StepEnd::largest : StepEnd::draws;
}

// The kernels tell of a logit that is not finite by a negative number in place of a token.
Status checkTokens(std::span<const int32_t> tokens) {
  for (int32_t token : tokens) {
    if (token < 0) {
      return badLogit(size_t(-1 - int64_t(token)));
    }
  }
  return success();
}

} // namespace

Status CudaRunner::copySampled(const CudaProgram &program, uint64_t rows, uint64_t slot) {
  std::byte *to = sampledTokens.data() + slot * extent().logitRows * sizeof(int32_t);
  DevicePtr from = program.buffer(uint32_t(program.plan().interface.sampled));
  Status status = device->check(device->api.memcpyToHost(to, from, rows * sizeof(int32_t), stream.get()),
                                "copy the tokens of a step");
  return status.ok()
             ? device->check(device->api.eventRecord(delivered[slot].get(), stream.get()), "record an event")
             : status;
}

std::span<const int32_t> CudaRunner::sampledOf(uint64_t slot, uint64_t rows) const {
  const auto *first = reinterpret_cast<const int32_t *>(sampledTokens.data());
  return {first + slot * extent().logitRows, rows};
}

Status CudaRunner::sample(const StepBatch &batch, const Sampling &sampling, int32_t *tokens) {
  size_t index = choose(batch.tokens.size());
  CudaProgram &program = programs[index];
  uint64_t rows = batch.logitRows.size();
  if (!program.choosesTokens() || rows == 0) {
    return StepRunner::sample(batch, sampling, tokens);
  }
  if (Status status = begin(); !status.ok()) {
    return status;
  }
  fillInputs(program.plan(), batch);
  fillDraws(program.plan(), sampling, false);
  Status status = start(index, trafficOf(batch), {endOf(sampling), false}, batch.firstToken);
  status = finish(status.ok() ? copySampled(program, rows, 0) : status);
  status = status.ok() ? checkTokens(sampledOf(0, rows)) : status;
  if (status.ok()) {
    std::ranges::copy(sampledOf(0, rows), tokens);
  }
  return status;
}

Status CudaRunner::generate(const StepBatch &batch, const Sampling &sampling, uint32_t steps,
                            const TokenSink &sink) {
  size_t index = choose(batch.tokens.size());
  CudaProgram &program = programs[index];
  if (!program.choosesTokens() || probe || !profiles.empty()) { // what is observed goes step by step
    return StepRunner::generate(batch, sampling, steps, sink);
  }
  if (Status status = begin(); !status.ok()) {
    return status;
  }
  fillInputs(program.plan(), batch);
  fillDraws(program.plan(), sampling, true);
  uint64_t rows = batch.logitRows.size();
  uint32_t started = 0, given = 0;
  bool wanted = true;
  Status status;
  while (status.ok() && wanted && given < steps) {
    if (started < steps && started - given <= ahead) {
      StepKind kind{endOf(sampling), started > 0};
      status = take(interrupted) ? fail(SMELT_interrupted, "stopped between two steps")
                                 : start(index, trafficOf(batch), kind, batch.firstToken);
      status = status.ok() ? copySampled(program, rows, started % sampledSlots) : status;
      ++started;
      continue;
    }
    uint64_t slot = given++ % sampledSlots;
    status = device->check(device->api.eventSynchronize(delivered[slot].get()), "run a step");
    status = status.ok() ? checkTokens(sampledOf(slot, rows)) : status;
    wanted = status.ok() && sink(sampledOf(slot, rows));
  }
  return finish(std::move(status));
}

} // namespace smelt::runtime::cuda
