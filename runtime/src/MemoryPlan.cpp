#include "runtime/src/MemoryPlan.h"

#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/PeakMemory.h"
#include "runtime/src/SystemCpus.h"
#include "runtime/src/Text.h"
#include "runtime/src/WeightPacking.h"

#include <fmt/format.h>

#include <algorithm>

namespace smelt::runtime {

using artifact::Buffer;
using artifact::BufferKind;
using artifact::Size;

namespace {

constexpr uint64_t bufferAlignment = 64;
constexpr uint32_t capacityMultiple = 16; // the K cache is blocked by 16 positions
constexpr uint32_t maxThreads = 1024;
constexpr uint32_t maxSequences = 1 << 20;
// Room for alignment and page rounding in every sum.
constexpr uint64_t maxBytes = uint64_t(1) << 60;

uint64_t roundUp(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

} // namespace

std::optional<uint64_t> evaluate(const Size &size, const Extent &extent) {
  uint64_t sum = size.bytes();
  auto add = [&](uint64_t factor, uint64_t times) {
    uint64_t product;
    return !__builtin_mul_overflow(factor, times, &product) && !__builtin_add_overflow(sum, product, &sum);
  };
  uint64_t positions;
  bool fits = !__builtin_mul_overflow(extent.sequences, extent.capacity, &positions) &&
              add(size.per_token(), extent.tokens) && add(size.per_logit_row(), extent.logitRows) &&
              add(size.per_position(), extent.capacity) && add(size.per_kv_position(), positions);
  return fits ? std::optional(sum) : std::nullopt;
}

std::optional<GemmChoice> parseGemm(const char *name) {
  std::string_view text = name ? name : "auto";
  return text == "auto"     ? std::optional(GemmChoice::automatic)
         : text == "own"    ? std::optional(GemmChoice::own)
         : text == "cublas" ? std::optional(GemmChoice::cublas)
                            : std::nullopt;
}

Status resolveOptions(smelt_session_options &options) {
  ProblemList problems;
  auto check = [&](const char *name, uint32_t value, uint32_t low, uint32_t high) {
    if (value < low || value > high) {
      problems.add(fmt::format("{} is {}, must be in {}..{}", name, value, low, high));
    }
  };
  check("sequences", options.sequences, 1, maxSequences);
  check("capacity", options.capacity, 1, uint32_t(INT32_MAX) / capacityMultiple * capacityMultiple);
  check("max_step_tokens", options.max_step_tokens, 1, 1 << 24);
  check("max_logit_rows", options.max_logit_rows, 0, 1 << 24);
  check("threads", options.threads, 0, maxThreads);
  if (std::optional<GemmChoice> gemm = parseGemm(options.gemm); !gemm) {
    problems.add(fmt::format("gemm is '{}', must be auto, own or cublas", printable(options.gemm)));
  } else if (*gemm == GemmChoice::cublas && (!options.device || std::string_view(options.device) == "cpu")) {
    problems.add("gemm is 'cublas', which the CPU has not; run on a GPU with --device cuda, or leave it out");
  }
  if (!problems.empty()) {
    return fail(SMELT_input, fmt::format("invalid session options:{}", problems.text()));
  }
  options.capacity = uint32_t(roundUp(options.capacity, capacityMultiple));
  if (options.max_logit_rows == 0) {
    options.max_logit_rows = std::max<uint32_t>(options.sequences, 16);
  }
  options.max_logit_rows = std::min(options.max_logit_rows, options.max_step_tokens);
  if (options.threads == 0) {
    options.threads = std::min(usableCpus(), maxThreads);
  }
  return success();
}

Result<MemoryPlan> planMemory(const Artifact &artifact, const smelt_session_options &options) {
  const artifact::Manifest &manifest = artifact.manifest();
  MemoryPlan plan;
  plan.extent = {options.max_step_tokens, options.max_logit_rows, options.sequences, options.capacity};
  auto overflow = [&](const std::string &what) {
    return fail(SMELT_memory, fmt::format("the size of {} overflows for {} sequences of {} positions", what,
                                          options.sequences, options.capacity));
  };
  for (const Buffer *buffer : *manifest.buffers()) {
    bool state = buffer->kind() == BufferKind::state;
    std::optional<uint64_t> bytes = evaluate(*buffer->size(), plan.extent);
    uint64_t all = 0;
    if (!bytes || *bytes > maxBytes ||
        __builtin_mul_overflow(roundUp(*bytes, bufferAlignment), uint64_t(buffer->slots()), &all) ||
        all > maxBytes) {
      return overflow(fmt::format("buffer '{}'", printable(buffer->name()->string_view())));
    }
    uint64_t &region = state ? plan.stateBytes : plan.arenaBytes;
    plan.offsets.push_back(region);
    plan.strides.push_back(roundUp(*bytes, bufferAlignment));
    region += all;
    if (region > maxBytes) {
      return overflow("all buffers");
    }
    (state                                      ? plan.memory.state
     : buffer->kind() == BufferKind::rope_table ? plan.memory.tables
                                                : plan.memory.workspace) += all;
  }
  for (const artifact::Kernel *kernel : *manifest.kernels()) {
    plan.scratchStride = std::max(plan.scratchStride, roundUp(kernel->scratch_bytes(), bufferAlignment));
  }
  for (const artifact::Weight *weight : *manifest.weights()) {
    plan.memory.weights += tensorBytes(*weight) * std::max<uint32_t>(weight->layers(), 1) *
                           std::max<uint32_t>(weight->experts(), 1);
  }
  plan.memory.packed_weights = packedBytes(manifest);
  plan.memory.scratch = plan.scratchStride * options.threads;
  plan.memory.total = plan.memory.workspace + plan.memory.state + plan.memory.tables + plan.memory.scratch;
  plan.memory.capacity = options.capacity;
  plan.memory.peak = peakMemory(artifact, plan);
  return plan;
}

Status checkFits(const MemoryPlan &plan, const smelt_session_options &options, uint64_t available) {
  if (plan.memory.total <= available) {
    return success();
  }
  const smelt_memory &memory = plan.memory;
  return fail(
      SMELT_memory,
      fmt::format(
          "the session needs {}, {} is available: {} of KV cache for {} sequence{} of {} positions, {} "
          "of workspace for steps of {} tokens and {} rows of logits, {} of rope tables, {} of scratch "
          "for {} thread{}; lower what is largest",
          formatBytes(memory.total), formatBytes(available), formatBytes(memory.state), options.sequences,
          options.sequences == 1 ? "" : "s", options.capacity, formatBytes(memory.workspace),
          options.max_step_tokens, options.max_logit_rows, formatBytes(memory.tables),
          formatBytes(memory.scratch), options.threads, options.threads == 1 ? "" : "s"));
}

} // namespace smelt::runtime
