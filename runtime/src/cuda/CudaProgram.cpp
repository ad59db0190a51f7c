#include "runtime/src/cuda/CudaProgram.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace smelt::runtime::cuda {

using namespace artifact;

class CudaProgram::Builder {
public:
  Builder(CudaProgram &program, const DevicePlan &device)
      : program(program), place(*program.place), device(device) {}

  Status loadFunctions(const Module &module) {
    for (const DeviceKernel *kernel : *place.program->device_kernels()) {
      std::vector<DeviceStageCode> &stages = program.code.emplace_back();
      for (const DeviceStage *stage : *kernel->stages()) {
        if (Status status = load(module, *stage, stages.emplace_back()); !status.ok()) {
          return status;
        }
      }
      std::vector<LibraryStageCode> &library = program.library.emplace_back();
      for (uint32_t i = 0; kernel->library() && i < kernel->library()->size(); ++i) {
        const LibraryStage &stage = *kernel->library()->Get(i);
        library.push_back({{}, stage.gemm()});
        Status status = stage.launch() ? load(module, *stage.launch(), library.back().launch) : success();
        if (!status.ok()) {
          return status;
        }
      }
    }
    return success();
  }

  void run() {
    program.pointers = {program.addresses.scratch, program.addresses.tickets};
    std::map<const Call *, size_t> constants;
    std::vector<size_t> firstConstants;
    size_t parameters = 0;
    forEachCall(place.tables, [&](const CallPlace &call) {
      auto [first, isNew] = constants.try_emplace(call.call, program.values.size());
      if (isNew) {
        addConstants(*call.call);
      }
      DeviceLaunch &launch = program.list.emplace_back();
      static_cast<CallPlace &>(launch) = call;
      launch.firstBinding = program.pointers.size();
      launch.firstParameter = parameters;
      launch.ofLogitRows = std::any_of(
          call.call->constants()->begin(), call.call->constants()->end(),
          [](const Constant *constant) { return constant->kind() == ConstantKind::logit_row_count; });
      const Kernel &kernel = *place.tables.kernels.Get(call.kernel);
      launch.only = choosesLargest(kernel) ? StepEnd::largest
                    : drawsTokens(kernel)  ? StepEnd::draws
                                           : StepEnd::logits;
      firstConstants.push_back(first->second);
      parameters += call.call->bindings()->size() + call.call->constants()->size() + 2;
      for (const Binding *binding : *call.call->bindings()) {
        program.pointers.push_back(resolve(*binding, call));
      }
    });
    // The vectors have their final size: their elements stay where they are.
    program.parameterList.reserve(parameters);
    for (size_t i = 0; i < program.list.size(); ++i) {
      addParameters(program.list[i], firstConstants[i]);
    }
  }

private:
  static Status load(const Module &module, const DeviceStage &stage, DeviceStageCode &code) {
    Result<Function> function = module.function(stage.function()->c_str(), stage.shared_bytes());
    if (!function.ok()) {
      return function.takeStatus();
    }
    code = {*function, &stage};
    return success();
  }

  void addParameters(const DeviceLaunch &launch, size_t firstConstant) {
    for (size_t b = 0; b < launch.call->bindings()->size(); ++b) {
      program.parameterList.push_back(&program.pointers[launch.firstBinding + b]);
    }
    for (size_t c = 0; c < launch.call->constants()->size(); ++c) {
      program.parameterList.push_back(&program.values[firstConstant + c]);
    }
    program.parameterList.push_back(&program.pointers[0]);
    program.parameterList.push_back(&program.pointers[1]);
  }

  void addConstants(const Call &call) {
    for (const Constant *constant : *call.constants()) {
      int32_t value = 0;
      switch (constant->kind()) {
      case ConstantKind::immediate:
        value = constant->value();
        break;
      case ConstantKind::sequence_count:
        value = int32_t(place.extent.sequences);
        break;
      case ConstantKind::kv_capacity:
        value = int32_t(place.extent.capacity);
        break;
      case ConstantKind::token_count:
        program.tokenCounts.push_back(program.values.size());
        break;
      case ConstantKind::logit_row_count:
        program.rowCounts.push_back(program.values.size());
        break;
      }
      program.values.push_back(value);
    }
  }

  DevicePtr resolve(const Binding &binding, const CallPlace &call) const {
    uint32_t index = binding.index();
    if (binding.kind() == BindingKind::buffer) {
      return program.buffer(index);
    }
    if (binding.kind() == BindingKind::state_slot) {
      return program.buffer(index) + place.strides[index] * call.slot;
    }
    // A tensor, or expert 0's of a table: the others follow it.
    const WeightPlace &weight = device.weights[index];
    return program.addresses.weights + weight.offset +
           weight.layerStride * weightLayer(*place.tables.weights.Get(index), call.layer);
  }

  CudaProgram &program;
  const ProgramPlan &place;
  const DevicePlan &device;
};

Result<CudaProgram> CudaProgram::create(const ProgramPlan &plan, const DevicePlan &device,
                                        const Module &module, const DeviceAddresses &addresses) {
  CudaProgram program;
  program.place = &plan;
  program.addresses = addresses;
  Builder builder(program, device);
  if (Status status = builder.loadFunctions(module); !status.ok()) {
    return status;
  }
  builder.run();
  return program;
}

DevicePtr CudaProgram::buffer(uint32_t index) const {
  DevicePtr base = addresses.workspace;
  if (place->tables.buffers.Get(index)->kind() == BufferKind::state) {
    base = addresses.state;
  } else if (place->tables.buffers.Get(index)->kind() == BufferKind::rope_table) {
    base = addresses.tables;
  }
  return base + place->offsets[index];
}

Gemm CudaProgram::gemm(const DeviceLaunch &launch, const DeviceGemm &stage, uint64_t rows) const {
  auto address = [&](int32_t index) {
    return binding(launch, size_t(index)) + stage.column() * sizeof(float);
  };
  Gemm gemm;
  gemm.rows = rows;
  gemm.outputs = stage.outputs();
  gemm.depth = stage.depth();
  gemm.activationStride = stage.activation_stride();
  gemm.weightStride = stage.depth();
  gemm.resultStride = stage.result_stride();
  gemm.activations = addresses.scratch;
  gemm.weight = binding(launch, stage.weight());
  gemm.result = stage.result() < 0
                       ? addresses.scratch + rows * stage.activation_stride() * sizeof(uint16_t)
                       : address(stage.result());
  gemm.addend = stage.addend() < 0 ? 0 : address(stage.addend());
  if (stage.scale() >= 0) {
    size_t constant = launch.firstParameter + launch.call->bindings()->size() + size_t(stage.scale());
    std::memcpy(&gemm.scale, parameterList[constant], sizeof gemm.scale);
  }
  return gemm;
}

bool CudaProgram::choosesTokens() const {
  auto has = [&](StepEnd end) {
    return std::any_of(list.begin(), list.end(),
                       [&](const DeviceLaunch &launch) { return launch.only == end; });
  };
  const StepInterface &buffers = place->interface;
  return buffers.draws >= 0 && buffers.sampled >= 0 && buffers.positions >= 0 && has(StepEnd::largest) &&
         has(StepEnd::draws);
}

void CudaProgram::setStep(const Extent &step) {
  for (size_t index : tokenCounts) {
    values[index] = int32_t(step.tokens);
  }
  for (size_t index : rowCounts) {
    values[index] = int32_t(step.logitRows);
  }
}

} // namespace smelt::runtime::cuda
