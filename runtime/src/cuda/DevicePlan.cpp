#include "runtime/src/cuda/DevicePlan.h"

#include "runtime/src/cuda/GemmLibrary.h"

#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

namespace smelt::runtime::cuda {

using namespace artifact;

namespace {

constexpr uint64_t bufferAlignment = 256;
constexpr uint64_t wantedStaging = uint64_t(32) << 20; // a copy of 0.6 ms over PCIe 5
constexpr uint64_t maxBytes = uint64_t(1) << 50;       // far above any GPU, far below overflow

bool isInput(BufferKind kind) {
  return kind == BufferKind::token_ids || kind == BufferKind::positions || kind == BufferKind::sequence_ids ||
         kind == BufferKind::logit_rows || kind == BufferKind::draws;
}

class Planner {
public:
  Planner(const Artifact &artifact, const DeviceTarget &target, const smelt_session_options &options,
          bool withLibrary)
      : manifest(artifact.manifest()), options(options) {
    plan.target = &target;
    plan.libraryBytes = withLibrary ? GemmLibrary::workspaceBytes : 0;
    plan.extent = {options.max_step_tokens, options.max_logit_rows, options.sequences, options.capacity};
  }

  Result<DevicePlan> run() {
    placeWeights();
    // A step may not exceed what the last program takes.
    const auto &programs = *plan.target->programs();
    if (uint32_t most = programs.Get(programs.size() - 1)->max_tokens()) {
      plan.extent.tokens = std::min<uint64_t>(plan.extent.tokens, most);
    }
    plan.extent.logitRows = std::min(plan.extent.logitRows, plan.extent.tokens);
    for (const DeviceProgram *program : programs) {
      placeProgram(*program);
    }
    plan.sampledBytes = sampledSlots * plan.extent.logitRows * sizeof(int32_t);
    plan.logitBytes = plan.extent.logitRows * manifest.vocab_size() * sizeof(float);
    if (plan.weightBytes + plan.stateBytes + plan.workspaceBytes + plan.tableBytes + plan.scratchBytes >
        maxBytes) {
      overflow("all buffers");
    }
    if (!problem.ok()) {
      return std::move(problem);
    }
    report();
    return std::move(plan);
  }

private:
  void overflow(const std::string &what) {
    if (problem.ok()) {
      problem = fail(SMELT_memory, fmt::format("the size of {} overflows for {} sequences of {} positions",
                                               what, options.sequences, options.capacity));
    }
  }

  // Bytes of a formula, rounded up; 0 after an overflow.
  uint64_t bytesOf(const Size &size, const Extent &extent, const auto &what) {
    std::optional<uint64_t> bytes = evaluate(size, extent);
    if (!bytes || *bytes > maxBytes) {
      overflow(what());
      return 0;
    }
    return roundUp(*bytes, bufferAlignment);
  }

  // Takes `bytes` at the end of a region.
  uint64_t take(uint64_t &region, uint64_t bytes, uint64_t times = 1) {
    uint64_t offset = region, all = 0;
    if (__builtin_mul_overflow(bytes, times, &all) || all > maxBytes || (region += all) > maxBytes) {
      overflow("all buffers");
      region = offset;
    }
    return offset;
  }

  void placeWeights() {
    for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
      const Weight &weight = *manifest.weights()->Get(i);
      WeightPlace place{.shape = PackedShape(weight, DeviceLayout(plan.target->layouts()->Get(i)))};
      uint64_t layers = std::max<uint32_t>(weight.layers(), 1);
      uint64_t experts = std::max<uint32_t>(weight.experts(), 1);
      if (place.shape.bytes > maxBytes / experts) {
        overflow(fmt::format("weight '{}'", printable(weight.name()->string_view())));
        return;
      }
      place.layerStride = roundUp(place.shape.bytes * experts, weightAlignment);
      place.offset = take(plan.weightBytes, place.layerStride, layers);
      plan.weights.push_back(place);
      plan.memory.weights += tensorBytes(weight) * layers * experts;
    }
    plan.stagingBytes = stagingFor(plan.weights, plan.memory.weights, wantedStaging);
  }

  void placeProgram(const DeviceProgram &program) {
    ProgramTables tables(manifest, program);
    ProgramPlan place{.tables = tables, .program = &program, .interface = StepInterface(tables.buffers)};
    place.extent = plan.extent;
    if (program.max_tokens()) {
      place.extent.tokens = std::min<uint64_t>(place.extent.tokens, program.max_tokens());
      place.extent.logitRows = std::min(place.extent.logitRows, place.extent.tokens);
    }
    place.offsets.resize(tables.buffers.size());
    place.strides.resize(tables.buffers.size());
    uint64_t workspace = 0, state = 0;
    for (bool inputs : {true, false}) { // inputs first, so that one copy brings them all
      for (uint32_t i = 0; i < tables.buffers.size(); ++i) {
        const Buffer &buffer = *tables.buffers.Get(i);
        if (isInput(buffer.kind()) == inputs) {
          placeBuffer(place, i, buffer, workspace, state);
        }
      }
      place.inputBytes = inputs ? workspace : place.inputBytes;
    }
    plan.workspaceBytes = std::max(plan.workspaceBytes, workspace);
    plan.stateBytes = state; // the same in all programs
    plan.inputBytes = std::max(plan.inputBytes, place.inputBytes);
    for (uint32_t k = 0; k < tables.kernels.size(); ++k) {
      const DeviceKernel &kernel = *program.device_kernels()->Get(k);
      Extent extent = place.extent;
      if (choosesTokens(*tables.kernels.Get(k))) { // see StepRunner::sample()
        extent.logitRows = std::min(extent.logitRows, extent.sequences);
      }
      auto name = [&] { return fmt::format("the scratch of kernel '{}'", nameOf(tables, k)); };
      plan.scratchBytes = std::max(plan.scratchBytes, bytesOf(*kernel.scratch(), extent, name));
      for (const DeviceStage *stage : *kernel.stages()) {
        checkGrid(tables, k, *stage, extent);
      }
      if (plan.libraryBytes && kernel.library() && kernel.library()->size()) {
        plan.scratchBytes = std::max(plan.scratchBytes, bytesOf(*kernel.library_scratch(), extent, name));
        for (const LibraryStage *stage : *kernel.library()) {
          stage->launch() ? checkGrid(tables, k, *stage->launch(), extent) : void();
        }
      }
    }
    plan.programs.push_back(std::move(place));
  }

  void placeBuffer(ProgramPlan &place, uint32_t index, const Buffer &buffer, uint64_t &workspace,
                   uint64_t &state) {
    uint64_t bytes = bytesOf(*buffer.size(), place.extent, [&] {
      return fmt::format("buffer '{}'", printable(buffer.name()->string_view()));
    });
    place.strides[index] = bytes;
    place.offsets[index] = buffer.kind() == BufferKind::state        ? take(state, bytes, buffer.slots())
                           : buffer.kind() == BufferKind::rope_table ? ropeTable(buffer, bytes)
                                                                     : take(workspace, bytes);
  }

  // Programs share equal tables.
  uint64_t ropeTable(const Buffer &buffer, uint64_t bytes) {
    for (const RopeTablePlace &table : plan.ropeTables) {
      if (table.dim == buffer.rope_dim() && table.theta == buffer.rope_theta() && table.bytes == bytes) {
        return table.offset;
      }
    }
    uint64_t offset = take(plan.tableBytes, bytes);
    plan.ropeTables.push_back({buffer.rope_dim(), buffer.rope_theta(), offset, bytes});
    return offset;
  }

  static std::string nameOf(const ProgramTables &tables, uint32_t kernel) {
    return printable(tables.kernels.Get(kernel)->name()->string_view());
  }

  void checkGrid(const ProgramTables &tables, uint32_t index, const DeviceStage &stage, const Extent &step) {
    uint64_t x = gridBlocks(*stage.grid_x(), step), y = gridBlocks(*stage.grid_y(), step),
             z = gridBlocks(*stage.grid_z(), step);
    if ((x > INT32_MAX || y > 65535 || z > 65535) && problem.ok()) {
      problem = fail(SMELT_unsupported,
                     fmt::format("stage '{}' of kernel '{}' would take a grid of {} x {} x {} blocks for "
                                 "steps of {} tokens; CUDA allows {} x 65535 x 65535: lower the tokens of a "
                                 "step (--chunk) or the capacity",
                                 printable(stage.function()->string_view()), nameOf(tables, index), x, y, z,
                                 step.tokens, INT32_MAX));
    }
  }

  void report() {
    smelt_memory &memory = plan.memory;
    memory.workspace = plan.workspaceBytes;
    memory.state = plan.stateBytes;
    memory.tables = plan.tableBytes;
    memory.scratch = plan.scratchBytes + ticketCount * sizeof(uint32_t) + plan.libraryBytes;
    memory.device_weights = plan.weightBytes;
    memory.pinned = plan.inputBytes + plan.logitBytes + plan.sampledBytes;
    memory.total = memory.workspace + memory.state + memory.tables + memory.scratch + memory.device_weights;
    memory.peak = memory.total + 2 * plan.stagingBytes;
    memory.capacity = options.capacity;
  }

  const Manifest &manifest;
  const smelt_session_options &options;
  DevicePlan plan;
  Status problem;
};

} // namespace

uint64_t stagingFor(std::span<const WeightPlace> weights, uint64_t fileBytes, uint64_t wanted) {
  uint64_t bytes = std::min(fileBytes, wanted);
  for (const WeightPlace &place : weights) {
    const PackedShape &shape = place.shape;
    uint64_t least = shape.isPlain() ? 2 : 2 * shape.columns * std::min(shape.rowStep(), shape.rows);
    bytes = std::max(bytes, least);
  }
  return roundUp(bytes, 16);
}

void withoutStaging(DevicePlan &plan) {
  plan.stagingBytes = 0;
  plan.memory.peak = plan.memory.total;
}

uint64_t gridBlocks(const GridSize &size, const Extent &step) {
  constexpr uint64_t most = uint64_t(1) << 31;
  // Every factor has 32 bits and every extent fewer than 32: no overflow.
  uint64_t sum = size.fixed() + uint64_t(size.per_token()) * step.tokens +
                 uint64_t(size.per_logit_row()) * step.logitRows +
                 uint64_t(size.per_position()) * step.capacity;
  uint64_t blocks = sum / size.divisor() + (sum % size.divisor() != 0);
  blocks = size.limit() ? std::min<uint64_t>(blocks, size.limit()) : blocks;
  return std::clamp<uint64_t>(blocks, 1, most);
}

bool hasLibraryForm(const DeviceTarget &target) {
  const auto &programs = *target.programs();
  return std::any_of(programs.begin(), programs.end(), [](const DeviceProgram *program) {
    const auto &kernels = *program->device_kernels();
    return std::any_of(kernels.begin(), kernels.end(),
                       [](const DeviceKernel *kernel) { return kernel->library() && kernel->library()->size(); });
  });
}

bool gainsFromLibrary(const DeviceTarget &target, const smelt_session_options &options) {
  return options.max_step_tokens >= GemmLibrary::leastRows && hasLibraryForm(target);
}

Result<DevicePlan> planDevice(const Artifact &artifact, const DeviceTarget &target,
                              const smelt_session_options &options, bool withLibrary) {
  return Planner(artifact, target, options, withLibrary && gainsFromLibrary(target, options)).run();
}

Status checkFits(const DevicePlan &plan, const smelt_session_options &options, std::string_view gpu,
                 uint64_t available, uint64_t total) {
  const smelt_memory &memory = plan.memory;
  if (memory.peak <= available) {
    return success();
  }
  return fail(
      SMELT_memory,
      fmt::format(
          "the session needs {} of {}, which has {} free of {}: {} of weights, {} of KV cache "
          "for {} sequence{} of {} positions, {} of workspace for steps of {} tokens and {} "
          "rows of logits, {} of rope tables, {} of scratch, {} to load weights; lower what is largest",
          formatBytes(memory.peak), gpu, formatBytes(available), formatBytes(total),
          formatBytes(memory.device_weights), formatBytes(memory.state), options.sequences,
          options.sequences == 1 ? "" : "s", options.capacity, formatBytes(memory.workspace),
          plan.extent.tokens, plan.extent.logitRows, formatBytes(memory.tables), formatBytes(memory.scratch),
          formatBytes(memory.peak - memory.total)));
}

} // namespace smelt::runtime::cuda
