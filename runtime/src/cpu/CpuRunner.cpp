#include "runtime/src/cpu/CpuRunner.h"

#include "runtime/src/CpuFeatures.h"
#include "runtime/src/PeakMemory.h"
#include "runtime/src/RopeTable.h"

#include <cstring>

namespace smelt::runtime {

using artifact::Buffer;
using artifact::BufferKind;

namespace {

PackedWeights::Options packingOptions(const smelt_session_options &options) {
  PackedWeights::Options packing;
  packing.progress = [&options](uint64_t done, uint64_t total) {
    return !options.progress || options.progress(options.progress_user, done, total) == 0;
  };
  if (options.weights_cache) {
    packing.cache = options.weights_cache;
  }
  packing.checkCache = options.check_weights_cache;
  packing.notice = [&options](const std::string &text) {
    if (options.notice) {
      options.notice(options.notice_user, text.c_str());
    }
  };
  return packing;
}

} // namespace

CpuRunner::CpuRunner(std::shared_ptr<const Artifact> artifact, std::shared_ptr<const PackedWeights> weights,
                     MemoryPlan plan, bool measure)
    : StepRunner(plan.extent, plan.memory, artifact->manifest().vocab_size()), owner(std::move(artifact)),
      weights(std::move(weights)), tables(owner->manifest()), interface(tables.buffers),
      plan(std::move(plan)) {
  if (measure) {
    measured.emplace(tables);
  }
}

Result<std::unique_ptr<StepRunner>> CpuRunner::create(std::shared_ptr<const Artifact> artifact,
                                                      std::shared_ptr<const BoundWeights> weights,
                                                      smelt_session_options &options) {
  Result<uint32_t> variant = CodeImage::choose(*artifact, options.isa, cpuFeatures(), slowFeatures());
  if (!variant.ok()) {
    return variant.takeStatus();
  }
  if (Status status = resolveOptions(options); !status.ok()) {
    return status;
  }
  options.isa = artifact->manifest().variants()->Get(*variant)->isa()->c_str();
  options.device = "cpu";
  options.gemm = "own";
  if (Status status = weights->generate(options.threads); !status.ok()) {
    return status;
  }
  Result<MemoryPlan> plan = planMemory(*artifact, options);
  if (!plan.ok()) {
    return plan.takeStatus();
  }
  plan->memory.peak = peakMemory(*artifact, *plan, weights->splatSeed().has_value());
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
  Result<std::shared_ptr<const PackedWeights>> packed =
      PackedWeights::of(std::move(weights), **pool, packingOptions(options));
  if (!packed.ok()) {
    return packed.takeStatus();
  }
  options.weights_cache = nullptr; // the caller's string, which need not outlive this call
  std::unique_ptr<CpuRunner> runner(
      new CpuRunner(std::move(artifact), std::move(*packed), std::move(*plan), options.profile));
  runner->arena = std::move(*arena);
  runner->state = std::move(*state);
  runner->image = std::move(*image);
  runner->program = Program(*runner->owner, *runner->weights, runner->image, runner->plan,
                            runner->arena.data(), runner->state.data());
  runner->executor = std::make_unique<Executor>(runner->tables, std::move(*pool), std::move(*scratch),
                                                runner->plan.scratchStride, options.min_shared_nanoseconds);
  runner->fillTables();
  return std::unique_ptr<StepRunner>(std::move(runner));
}

void CpuRunner::fillTables() {
  for (uint32_t i = 0; i < tables.buffers.size(); ++i) {
    const Buffer &table = *tables.buffers.Get(i);
    if (table.kind() == BufferKind::rope_table) {
      fillRopeTable(reinterpret_cast<float *>(buffer(int(i))), plan.extent.capacity, table.rope_dim(),
                    table.rope_theta());
    }
  }
}

Status CpuRunner::run(const StepBatch &batch, float *logits) {
  auto fill = [&](int index, std::span<const int32_t> values) {
    if (index >= 0 && !values.empty()) { // memcpy takes no null pointer, not even for 0 bytes
      std::memcpy(buffer(index), values.data(), values.size_bytes());
    }
  };
  fill(interface.tokenIds, batch.tokens);
  fill(interface.positions, batch.positions);
  fill(interface.sequenceIds, batch.sequenceIds);
  fill(interface.logitRows, batch.logitRows);
  StepTraffic step;
  step.extent = {batch.tokens.size(), batch.logitRows.size(), extent().sequences, extent().capacity};
  step.cachedPositions = batch.cachedPositions;
  Executor::Watch watch{.interrupted = interrupted,
                        .profile = measured ? &*measured : nullptr,
                        .probe = probe,
                        .probeUser = probeUser};
  if (Status status = executor->run(program, step, batch.firstToken, watch); !status.ok()) {
    return status;
  }
  if (!batch.logitRows.empty()) {
    std::memcpy(logits, buffer(interface.logits), batch.logitRows.size() * tables.vocabSize * sizeof(float));
  }
  return success();
}

smelt_memory CpuRunner::memory() const {
  smelt_memory memory = StepRunner::memory();
  memory.packed_huge = weights->hugeBytes();
  return memory;
}

const smelt_kernel_profile *CpuRunner::profile(uint32_t index) const {
  return measured && index < tables.kernels.size() ? &measured->kernel(index) : nullptr;
}

void CpuRunner::resetProfile() {
  if (measured) {
    measured->reset();
  }
}

} // namespace smelt::runtime
