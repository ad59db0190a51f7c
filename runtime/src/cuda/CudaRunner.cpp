#include "runtime/src/cuda/CudaRunner.h"

#include "runtime/src/Sampler.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <cstring>

namespace smelt::runtime::cuda {

using namespace artifact;

namespace {

bool takesPart(const DeviceLaunch &launch, StepEnd end) {
  return launch.only == StepEnd::logits || launch.only == end;
}

} // namespace

size_t CudaRunner::choose(uint64_t tokens) const {
  size_t index = 0;
  while (index + 1 < programs.size() && programs[index].plan().extent.tokens < tokens) {
    ++index;
  }
  return index;
}

Status CudaRunner::begin() {
  if (!failure.ok()) {
    return failure;
  }
  if (Status status = device->makeCurrent(); !status.ok()) {
    return status;
  }
  return take(interrupted) ? fail(SMELT_interrupted, "stopped between two steps") : success();
}

StepTraffic CudaRunner::trafficOf(const StepBatch &batch) const {
  StepTraffic step;
  step.extent = {batch.tokens.size(), batch.logitRows.size(), extent().sequences, extent().capacity};
  step.cachedPositions = batch.cachedPositions;
  return step;
}

Status CudaRunner::run(const StepBatch &batch, float *logits) {
  if (Status status = begin(); !status.ok()) {
    return status;
  }
  size_t index = choose(batch.tokens.size());
  fillInputs(programs[index].plan(), batch);
  Status status = finish(start(index, trafficOf(batch), {}, batch.firstToken));
  if (status.ok() && !batch.logitRows.empty()) {
    std::memcpy(logits, logitRows.data(), batch.logitRows.size() * vocabSize * sizeof(float));
  }
  return status;
}

Status CudaRunner::start(size_t index, const StepTraffic &step, StepKind kind, uint64_t firstToken) {
  programs[index].setStep(step.extent);
  return probe || !profiles.empty() ? runObserved(index, step, kind, firstToken)
         : graphs                   ? runAsGraph(index, step.extent, kind)
                                    : enqueue(programs[index], step.extent, kind, true);
}

Status CudaRunner::finish(Status status) {
  // Waits whatever happened: the inputs may be overwritten from here on.
  Status end = synchronize("run a step");
  if (!end.ok() && status.ok()) {
    status = synchronous
                 ? end
                 : fail(end.code, end.message + "; set SMELT_CUDA_SYNC=1 to find the kernel that failed");
  }
  bool fine = status.ok() || status.code == SMELT_interrupted || status.code == SMELT_weights;
  return fine ? status : broken(std::move(status));
}

Status CudaRunner::broken(Status status) {
  failure = fail(status.code, "the session cannot go on after an earlier failure: " + status.message);
  return status;
}

Status CudaRunner::synchronize(std::string_view what) {
  return device->check(device->api.streamSynchronize(stream.get()), what);
}

void CudaRunner::fillInputs(const ProgramPlan &plan, const StepBatch &batch) {
  auto fill = [&](int index, std::span<const int32_t> values) {
    if (index >= 0 && !values.empty()) { // memcpy takes no null pointer, not even for 0 bytes
      std::memcpy(inputs.data() + plan.offsets[size_t(index)], values.data(), values.size_bytes());
    }
  };
  fill(plan.interface.tokenIds, batch.tokens);
  fill(plan.interface.positions, batch.positions);
  fill(plan.interface.sequenceIds, batch.sequenceIds);
  fill(plan.interface.logitRows, batch.logitRows);
}

void CudaRunner::fillDraws(const ProgramPlan &plan, const Sampling &sampling, bool advance) {
  DrawLimits limits = drawLimits(sampling.how);
  std::byte *place = inputs.data() + plan.offsets[size_t(plan.interface.draws)];
  for (uint64_t stream : sampling.streams) {
    smelt_draw draw = {.seed = sampling.how.seed,
                       .stream = stream,
                       .step = sampling.step,
                       .inverse_temperature = limits.inverseTemperature,
                       .share = limits.share,
                       .top_k = limits.topK,
                       .advance = advance};
    std::memcpy(place, &draw, sizeof draw);
    place += sizeof draw;
  }
}

Status CudaRunner::copyInputs(const CudaProgram &program) {
  return device->check(
      device->api.memcpyToDevice(workspace.address(), inputs.data(), program.plan().inputBytes, stream.get()),
      "copy the inputs of a step");
}

Status CudaRunner::copyLogits(const CudaProgram &program, const Extent &step) {
  if (step.logitRows == 0) {
    return success();
  }
  const ProgramPlan &plan = program.plan();
  return device->check(
      device->api.memcpyToHost(logitRows.data(), program.buffer(uint32_t(plan.interface.logits)),
                               step.logitRows * plan.tables.vocabSize * sizeof(float), stream.get()),
      "copy the logits of a step");
}

Status CudaRunner::enqueue(CudaProgram &program, const Extent &step, StepKind kind, bool interruptible) {
  if (Status status = kind.continued ? success() : copyInputs(program); !status.ok()) {
    return status;
  }
  for (const DeviceLaunch &next : program.launches()) {
    if (interruptible && take(interrupted)) {
      return fail(SMELT_interrupted, "stopped between two kernels");
    }
    if (!takesPart(next, kind.end)) {
      continue;
    }
    if (Status status = launch(program, next, step); !status.ok()) {
      return status;
    }
  }
  return kind.end == StepEnd::logits ? copyLogits(program, step) : success();
}

Status CudaRunner::launch(CudaProgram &program, const DeviceLaunch &launch, const Extent &step) {
  if (launch.ofLogitRows && step.logitRows == 0) {
    return success(); // a grid has at least one block, which would find no row
  }
  uint64_t rows = launch.ofLogitRows ? step.logitRows : step.tokens;
  Result<bool> byLibrary = libraryTakes(program, launch, rows);
  if (!byLibrary.ok()) {
    return byLibrary.takeStatus();
  }
  if (*byLibrary) {
    return launchByLibrary(program, launch, step, rows);
  }
  for (const DeviceStageCode &code : program.stages(launch)) {
    if (Status status = launchStage(program, launch, code, step); !status.ok()) {
      return status;
    }
  }
  return success();
}

Status CudaRunner::launchStage(CudaProgram &program, const DeviceLaunch &launch, const DeviceStageCode &code,
                               const Extent &step) {
  const DeviceStage &stage = *code.stage;
  auto x = unsigned(gridBlocks(*stage.grid_x(), step)), y = unsigned(gridBlocks(*stage.grid_y(), step)),
       z = unsigned(gridBlocks(*stage.grid_z(), step));
  Code result = device->api.launchKernel(code.function, x, y, z, stage.threads(), 1, 1, stage.shared_bytes(),
                                         stream.get(), program.parameters(launch), nullptr);
  if (result == 0 && synchronous) {
    result = device->api.streamSynchronize(stream.get());
  }
  if (result == 0) {
    return success();
  }
  const Kernel &kernel = *program.plan().tables.kernels.Get(launch.kernel);
  return device->check(
      result, fmt::format("run stage '{}' of kernel '{}' ({}), grid {} x {} x {} of {} threads, {} bytes of "
                          "shared memory, in block {} call {}, visit {}, layer {}",
                          printable(stage.function()->string_view()), printable(kernel.name()->string_view()),
                          printable(kernel.role()->string_view()), x, y, z, stage.threads(),
                          stage.shared_bytes(), launch.block, launch.callIndex, launch.visit, launch.layer));
}

Status CudaRunner::runAsGraph(size_t index, const Extent &step, StepKind kind) {
  CudaProgram &program = programs[index];
  Result<GraphExec> graph =
      graphs->find(step, kind.variant(), [&] { return enqueue(program, step, kind, false); });
  if (!graph.ok()) {
    graphs.reset(); // steps can do without; a fault of the context will show again
    return enqueue(program, step, kind, true);
  }
  if (!*graph) {
    return enqueue(program, step, kind, true);
  }
  return device->check(device->api.graphLaunch(*graph, stream.get()), "launch the graph of a step");
}

Status CudaRunner::runObserved(size_t index, const StepTraffic &step, StepKind kind, uint64_t firstToken) {
  CudaProgram &program = programs[index];
  bool measure = !profiles.empty();
  size_t event = 0;
  auto mark = [&] {
    return measure ? device->check(device->api.eventRecord(events[event++].get(), stream.get()),
                                   "record an event")
                   : success();
  };
  Status status = copyInputs(program);
  status = status.ok() ? mark() : status;
  for (const DeviceLaunch &next : program.launches()) {
    if (status.ok() && take(interrupted)) {
      status = fail(SMELT_interrupted, "stopped between two kernels");
    }
    bool runs = takesPart(next, kind.end);
    status = status.ok() && runs ? launch(program, next, step.extent) : status;
    status = status.ok() ? mark() : status;
    if (status.ok() && runs && probe) {
      status = callProbe(program, next, step.extent, firstToken);
    }
    if (!status.ok()) {
      return status;
    }
  }
  status = kind.end == StepEnd::logits ? copyLogits(program, step.extent) : status;
  return status.ok() && measure ? addTimes(index, step, kind.end) : status;
}

Status CudaRunner::addTimes(size_t index, const StepTraffic &step, StepEnd end) {
  if (Status status = synchronize("run a step"); !status.ok()) {
    return status;
  }
  const std::vector<DeviceLaunch> &launches = programs[index].launches();
  for (size_t i = 0; i < launches.size(); ++i) {
    float milliseconds = 0;
    if (Status status =
            device->check(device->api.eventElapsedTime(&milliseconds, events[i].get(), events[i + 1].get()),
                          "read an event");
        !status.ok()) {
      return status;
    }
    if (takesPart(launches[i], end)) {
      profiles[index].add(launches[i], step, double(milliseconds) * 1e-3);
    }
  }
  return success();
}

Status CudaRunner::callProbe(const CudaProgram &program, const DeviceLaunch &launch, const Extent &step,
                             uint64_t firstToken) {
  for (uint32_t i = 0; i < launch.call->bindings()->size(); ++i) {
    std::optional<smelt_probe> event = probeOf(program.plan().tables, launch, i, step);
    if (!event) {
      continue;
    }
    probed.resize(event->bytes);
    Status status = device->check(
        device->api.memcpyToHost(probed.data(), program.binding(launch, i), event->bytes, stream.get()),
        fmt::format("copy buffer '{}' for a probe", printable(event->buffer)));
    status = status.ok() ? synchronize("run up to a probe") : status;
    if (!status.ok()) {
      return status;
    }
    event->data = probed.data();
    event->first_token = firstToken;
    probe(probeUser, &*event);
  }
  return success();
}

const smelt_kernel_profile *CudaRunner::profile(uint32_t index) const {
  for (const Profile &profile : profiles) { // the kernels of one program after another
    if (index < profile.size()) {
      return &profile.kernel(index);
    }
    index -= profile.size();
  }
  return nullptr;
}

void CudaRunner::resetProfile() {
  for (Profile &profile : profiles) {
    profile.reset();
  }
}

} // namespace smelt::runtime::cuda
