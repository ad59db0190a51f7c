// How a CudaRunner comes to be: target, plan, code, memory, weights.
#include "runtime/src/RopeTable.h"
#include "runtime/src/Text.h"
#include "runtime/src/cuda/CudaRunner.h"
#include "runtime/src/cuda/SplatKernel.h"
#include "runtime/src/cuda/WeightUpload.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

namespace smelt::runtime::cuda {

using namespace artifact;

namespace {

bool isSet(const char *variable, const char *value) {
  const char *text = std::getenv(variable);
  return text && std::string_view(text) == value;
}

Result<const DeviceTarget *> targetFor(const Artifact &artifact, const Device &device, const char *name) {
  if (!name) {
    return chooseTarget(artifact, device.computeCapability, device.describe());
  }
  Result<const DeviceTarget *> target = findTarget(artifact, name);
  if (target.ok() && !runsOn(**target, device.computeCapability)) {
    return fail(SMELT_unsupported, fmt::format("{}: its code for {} does not run on {}", artifact.name(),
                                               printable(name), device.describe()));
  }
  return target;
}

// What multiplies the matrices of long steps; null: our kernels. `options` resolved.
Result<std::unique_ptr<GemmLibrary>> libraryFor(const DevicePointer &device, const DeviceTarget &target,
                                                const smelt_session_options &options) {
  GemmChoice choice = *parseGemm(options.gemm);
  if (choice == GemmChoice::cublas && !hasLibraryForm(target)) {
    return fail(SMELT_unsupported,
                fmt::format("cuBLASLt is asked for, but the code for {} has no place for it; compile the "
                            "artifact again, or do without it: --gemm own",
                            printable(target.name()->string_view())));
  }
  if (!gainsFromLibrary(target, options)) {
    return std::unique_ptr<GemmLibrary>();
  }
  return GemmLibrary::open(device, choice, [&](const std::string &text) {
    if (options.notice) {
      options.notice(options.notice_user, text.c_str());
    }
  });
}

} // namespace

std::optional<int> parseDevice(std::string_view device) {
  constexpr std::string_view name = "cuda";
  if (device == name) {
    return 0;
  }
  if (!device.starts_with(name) || device.size() < name.size() + 2 || device[name.size()] != ':') {
    return std::nullopt;
  }
  std::string_view digits = device.substr(name.size() + 1);
  unsigned ordinal = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  bool number = error == std::errc() && end == digits.data() + digits.size() && ordinal < 1 << 16;
  return number ? std::optional(int(ordinal)) : std::nullopt;
}

Result<DevicePlan> planFor(const Artifact &artifact, const smelt_session_options &options) {
  std::optional<int> ordinal = parseDevice(options.device);
  if (!ordinal) {
    Result<const DeviceTarget *> target = findTarget(artifact, options.device);
    // Whether that machine has cuBLASLt is not known.
    bool mayHave = parseGemm(options.gemm) != GemmChoice::own;
    return target.ok() ? planDevice(artifact, **target, options, mayHave) : target.takeStatus();
  }
  Result<DevicePointer> device = Device::open(*ordinal);
  if (!device.ok()) {
    return device.takeStatus();
  }
  Result<const DeviceTarget *> target = targetFor(artifact, **device, options.isa);
  if (!target.ok()) {
    return target.takeStatus();
  }
  Result<std::unique_ptr<GemmLibrary>> library = libraryFor(*device, **target, options);
  return library.ok() ? planDevice(artifact, **target, options, *library != nullptr) : library.takeStatus();
}

CudaRunner::CudaRunner(std::shared_ptr<const Artifact> artifact, DevicePointer device, DevicePlan plan)
    : StepRunner(plan.extent, plan.memory, artifact->manifest().vocab_size()), owner(std::move(artifact)),
      device(std::move(device)), deviceName(fmt::format("cuda:{}", this->device->ordinal)),
      plan(std::move(plan)), synchronous(isSet("SMELT_CUDA_SYNC", "1")) {}

Result<std::unique_ptr<StepRunner>> CudaRunner::create(std::shared_ptr<const Artifact> artifact,
                                                       std::shared_ptr<const BoundWeights> weights,
                                                       smelt_session_options &options) {
  Result<DevicePointer> device = Device::open(*parseDevice(options.device));
  if (!device.ok()) {
    return device.takeStatus();
  }
  Result<const DeviceTarget *> target = targetFor(*artifact, **device, options.isa);
  if (!target.ok()) {
    return target.takeStatus();
  }
  if (Status status = resolveOptions(options); !status.ok()) {
    return status;
  }
  Result<std::unique_ptr<GemmLibrary>> library = libraryFor(*device, **target, options);
  if (!library.ok()) {
    return library.takeStatus();
  }
  Result<DevicePlan> plan = planDevice(*artifact, **target, options, *library != nullptr);
  if (!plan.ok()) {
    return plan.takeStatus();
  }
  if (weights->splatSeed()) {
    withoutStaging(*plan);
  }
  options.isa = (*target)->name()->c_str();
  options.max_step_tokens = uint32_t(plan->extent.tokens);
  options.max_logit_rows = uint32_t(plan->extent.logitRows);
  Result<Module> module = Module::load(*device, *artifact, **target);
  if (!module.ok()) {
    return module.takeStatus();
  }
  size_t available = 0, total = 0;
  Status status =
      (*device)->check((*device)->api.memGetInfo(&available, &total), "be asked for its free memory");
  status = status.ok() ? checkFits(*plan, options, (*device)->describe(), available, total) : status;
  if (!status.ok()) {
    return status;
  }
  std::unique_ptr<CudaRunner> runner(new CudaRunner(std::move(artifact), *device, std::move(*plan)));
  runner->library = std::move(*library);
  status = runner->allocate();
  status = status.ok() ? runner->buildPrograms(std::move(*module), options.profile) : status;
  status = status.ok() ? runner->fillTables() : status;
  status = status.ok() ? runner->fillWeights(*weights, options) : status;
  if (!status.ok()) {
    return status;
  }
  options.device = runner->deviceName.c_str();
  options.gemm = runner->library ? "cublas" : "own";
  return std::unique_ptr<StepRunner>(std::move(runner));
}

Status CudaRunner::allocate() {
  Result<OwnedStream> made = createStream(device);
  if (!made.ok()) {
    return made.takeStatus();
  }
  stream = std::move(*made);
  struct {
    DeviceMemory &memory;
    uint64_t bytes;
    const char *what;
  } regions[] = {
      {weightMemory, plan.weightBytes, "the weights"},   {state, plan.stateBytes, "the KV cache"},
      {workspace, plan.workspaceBytes, "the workspace"}, {tables, plan.tableBytes, "rope tables"},
      {scratch, plan.scratchBytes, "scratch"},           {tickets, ticketCount * sizeof(uint32_t), "tickets"},
      {libraryWorkspace, plan.libraryBytes, "the workspace of cuBLASLt"},
  };
  for (auto &region : regions) {
    Result<DeviceMemory> memory = DeviceMemory::allocate(device, region.bytes, region.what);
    if (!memory.ok()) {
      return memory.takeStatus();
    }
    region.memory = std::move(*memory);
  }
  for (const DeviceMemory *memory : {&state, &tickets}) {
    if (memory->size() == 0) {
      continue;
    }
    if (Status status = device->check(
            device->api.memsetBytes(memory->address(), 0, memory->size(), stream.get()), "clear its memory");
        !status.ok()) {
      return status;
    }
  }
  Result<PinnedMemory> in = PinnedMemory::allocate(device, plan.inputBytes, "the inputs of a step");
  Result<PinnedMemory> out = PinnedMemory::allocate(device, plan.logitBytes, "the logits of a step");
  Result<PinnedMemory> tokens = PinnedMemory::allocate(device, plan.sampledBytes, "the tokens of steps");
  for (auto *pinned : {&in, &out, &tokens}) {
    if (!pinned->ok()) {
      return pinned->takeStatus();
    }
  }
  inputs = std::move(*in);
  logitRows = std::move(*out);
  sampledTokens = std::move(*tokens);
  std::fill_n(inputs.data(), inputs.size(), std::byte(0));
  return success();
}

Status CudaRunner::fillTables() {
  std::vector<float> values;
  for (const RopeTablePlace &table : plan.ropeTables) {
    values.assign(std::max(table.bytes / sizeof(float), plan.extent.capacity * table.dim), 0);
    fillRopeTable(values.data(), plan.extent.capacity, table.dim, table.theta);
    Status status = device->check(
        device->api.memcpyToDevice(tables.address() + table.offset, values.data(), table.bytes, stream.get()),
        "copy the rope tables");
    status = status.ok() ? synchronize("copy the rope tables") : status;
    if (!status.ok()) {
      return status;
    }
  }
  return success();
}

Status CudaRunner::fillWeights(const BoundWeights &weights, const smelt_session_options &options) {
  auto progress = [&](uint64_t done, uint64_t total) {
    return !options.progress || options.progress(options.progress_user, done, total) == 0;
  };
  if (std::optional<uint64_t> seed = weights.splatSeed()) {
    return splatWeights(device, owner->manifest(), plan, *seed, weightMemory.address(), stream.get(),
                        progress);
  }
  return uploadWeights(device, weights, plan, weightMemory.address(), stream.get(), options.threads,
                       progress);
}

Status CudaRunner::buildPrograms(Module loaded, bool measure) {
  module = std::move(loaded);
  DeviceAddresses addresses{.weights = weightMemory.address(),
                            .state = state.address(),
                            .workspace = workspace.address(),
                            .tables = tables.address(),
                            .scratch = scratch.address(),
                            .tickets = tickets.address()};
  size_t launches = 0;
  for (const ProgramPlan &place : plan.programs) {
    Result<CudaProgram> program = CudaProgram::create(place, plan, module, addresses);
    if (!program.ok()) {
      return program.takeStatus();
    }
    launches = std::max(launches, program->launches().size());
    programs.push_back(std::move(*program));
    if (measure) {
      profiles.emplace_back(place.tables);
    }
  }
  if (!measure && !synchronous && !isSet("SMELT_CUDA_GRAPHS", "0")) {
    graphs = std::make_unique<GraphCache>(device, stream.get());
  }
  Status status = measure ? addEvents(events, launches + 1, event_default) : success();
  return status.ok() ? addEvents(delivered, sampledSlots, event_disable_timing) : status;
}

Status CudaRunner::addEvents(std::vector<OwnedEvent> &list, size_t count, EventFlag flag) {
  while (list.size() < count) {
    Result<OwnedEvent> event = createEvent(device, flag);
    if (!event.ok()) {
      return event.takeStatus();
    }
    list.push_back(std::move(*event));
  }
  return success();
}

} // namespace smelt::runtime::cuda
