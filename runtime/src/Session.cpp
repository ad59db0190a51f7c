#include "runtime/src/Session.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/CpuFeatures.h"
#include "runtime/src/RopeTable.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <cstring>

namespace smelt::runtime {

using artifact::Buffer;
using artifact::BufferKind;
using artifact::Manifest;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Artifact> artifact,
                                                 std::shared_ptr<const BoundWeights> weights,
                                                 smelt_session_options options) {
  if (weights->artifact() != artifact) {
    return fail(SMELT_input, "the weights were bound for another artifact; bind them for this one");
  }
  Result<uint32_t> variant = CodeImage::choose(*artifact, options.isa, cpuFeatures());
  if (!variant.ok()) {
    return variant.takeStatus();
  }
  if (Status status = resolveOptions(options); !status.ok()) {
    return status;
  }
  options.isa = artifact->manifest().variants()->Get(*variant)->isa()->c_str();
  Result<MemoryPlan> plan = planMemory(*artifact, options);
  if (!plan.ok()) {
    return plan.takeStatus();
  }
  if (Status status = checkFits(*plan, options, availableMemory()); !status.ok()) {
    return status;
  }
  Result<CodeImage> image = CodeImage::load(*artifact, *variant);
  if (!image.ok()) {
    return image.takeStatus();
  }
  Result<Memory> arena = Memory::allocate(plan->arenaBytes, "the workspace");
  Result<Memory> state = Memory::allocate(plan->stateBytes, "the KV cache");
  Result<Memory> scratch = Memory::allocate(plan->scratchStride * options.threads, "scratch");
  for (Result<Memory> *memory : {&arena, &state, &scratch}) {
    if (!memory->ok()) {
      return memory->takeStatus();
    }
  }
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(int32_t(options.threads));
  if (!pool.ok()) {
    return pool.takeStatus();
  }
  std::unique_ptr<Session> session(new Session);
  session->owner = std::move(artifact);
  session->weights = std::move(weights);
  session->resolved = options;
  session->plan = std::move(*plan);
  session->arena = std::move(*arena);
  session->state = std::move(*state);
  session->image = std::move(*image);
  session->lengths.resize(options.sequences);
  session->touched.resize(options.sequences);
  session->program = Program(*session->owner, *session->weights, session->image, session->plan,
                             session->arena.data(), session->state.data());
  session->runner = std::make_unique<Executor>(session->owner->manifest(), std::move(*pool),
                                               std::move(*scratch), session->plan.scratchStride);
  if (options.profile) {
    session->runner->enableProfile();
  }
  session->findInterface();
  session->fillTables();
  return session;
}

void Session::findInterface() {
  const Manifest &manifest = owner->manifest();
  for (uint32_t i = 0; i < manifest.buffers()->size(); ++i) {
    switch (manifest.buffers()->Get(i)->kind()) {
    case BufferKind::token_ids:
      tokenIds = int(i);
      break;
    case BufferKind::positions:
      positions = int(i);
      break;
    case BufferKind::sequence_ids:
      sequenceIds = int(i);
      break;
    case BufferKind::logit_rows:
      logitRows = int(i);
      break;
    case BufferKind::logits:
      logitBuffer = int(i);
      break;
    case BufferKind::workspace:
    case BufferKind::state:
    case BufferKind::rope_table:
      break;
    }
  }
}

void Session::fillTables() {
  const Manifest &manifest = owner->manifest();
  for (uint32_t i = 0; i < manifest.buffers()->size(); ++i) {
    const Buffer &table = *manifest.buffers()->Get(i);
    if (table.kind() == BufferKind::rope_table) {
      fillRopeTable(reinterpret_cast<float *>(buffer(int(i))), plan.extent.capacity, table.rope_dim(),
                    table.rope_theta());
    }
  }
}

Status Session::forward(const smelt_step &step, float *logits) {
  if (step.logit_row_count && !logits) {
    return fail(SMELT_input, fmt::format("{} logit rows are asked for, but there is no place for them",
                                         step.logit_row_count));
  }
  StepLimits limits{owner->manifest().vocab_size(), uint32_t(plan.extent.capacity)};
  if (Status status = input.read(step, lengths, limits); !status.ok()) {
    return status;
  }
  size_t row = 0;
  for (size_t begin = 0; begin < step.token_count;) {
    size_t end = std::min<size_t>(begin + plan.extent.tokens, step.token_count);
    size_t rowEnd = row;
    while (rowEnd < step.logit_row_count && size_t(step.logit_rows[rowEnd]) < end) {
      if (rowEnd - row == plan.extent.logitRows) {
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
  size_t tokens = end - begin, rows = rowEnd - rowBegin;
  auto fill = [&](int index, const int32_t *from) {
    if (index >= 0) {
      std::memcpy(buffer(index), from + begin, tokens * sizeof(int32_t));
    }
  };
  fill(tokenIds, step.tokens);
  fill(positions, input.positions.data());
  fill(sequenceIds, input.sequenceIds.data());
  if (logitRows >= 0) {
    auto *local = reinterpret_cast<int32_t *>(buffer(logitRows));
    for (size_t i = 0; i < rows; ++i) {
      local[i] = step.logit_rows[rowBegin + i] - int32_t(begin);
    }
  }
  if (Status status = runner->run(program, traffic(begin, end, rows), begin); !status.ok()) {
    return status;
  }
  uint64_t vocab = owner->manifest().vocab_size();
  if (rows) {
    std::memcpy(logits + rowBegin * vocab, buffer(logitBuffer), rows * vocab * sizeof(float));
  }
  return success();
}

StepTraffic Session::traffic(size_t begin, size_t end, size_t rows) {
  StepTraffic step;
  step.extent = {end - begin, rows, plan.extent.sequences, plan.extent.capacity};
  if (!resolved.profile) {
    return step;
  }
  touched.assign(touched.size(), false);
  for (size_t i = end; i-- > begin;) { // from the last token, whose position is the sequence's length
    size_t sequence = size_t(input.sequenceIds[i]);
    if (!touched[sequence]) {
      touched[sequence] = true;
      step.cachedPositions += uint64_t(input.positions[i]) + 1;
    }
  }
  return step;
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

} // namespace smelt::runtime
