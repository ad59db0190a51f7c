// The devices of a manifest: code images and step programs of GPUs.
#pragma once

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Artifact/ProgramWriter.h"

namespace smelt::artifact {

// Where an image goes in the code section.
struct ImagePlace {
  uint64_t offset = 0, size = 0; // bytes from the start of the section
};

class DeviceWriter {
public:
  DeviceWriter(flatbuffers::FlatBufferBuilder &builder, const WeightIndex &weights,
               llvm::ArrayRef<DeviceProgramInput> programs)
      : builder(builder), weights(weights), programs(programs) {}

  // `code.kernels` holds the kernels of the programs one after another; `cubin` has size 0 when there is
  // none.
  flatbuffers::Offset<DeviceTarget> target(const codegen::cuda::CompiledTarget &code, ImagePlace ptx,
                                           ImagePlace cubin);

private:
  flatbuffers::Offset<DeviceStage> stage(const codegen::cuda::Stage &stage);
  flatbuffers::Offset<LibraryStage> libraryStage(const codegen::cuda::LibraryStage &stage);
  flatbuffers::Offset<DeviceKernel> kernel(const codegen::cuda::CompiledKernel &kernel);
  TableOf<DeviceProgram> programTable(const codegen::cuda::CompiledTarget &code);
  flatbuffers::Offset<flatbuffers::Vector<DeviceLayout>> layouts();

  flatbuffers::FlatBufferBuilder &builder;
  const WeightIndex &weights;
  llvm::ArrayRef<DeviceProgramInput> programs;
};

} // namespace smelt::artifact
