#include "compiler/Artifact/DeviceWriter.h"

#include <algorithm>

namespace smelt::artifact {

using flatbuffers::Offset;
namespace ir = mlir::smelt;
namespace cuda = codegen::cuda;

static GridSize toGrid(const cuda::GridSize &grid) {
  return GridSize(grid.fixed, grid.per_token, grid.per_logit_row, grid.per_position, grid.divisor,
                  grid.limit);
}

Offset<DeviceTarget> DeviceWriter::target(const cuda::CompiledTarget &code, ImagePlace ptx,
                                          ImagePlace cubin) {
  std::vector<Offset<DeviceImage>> images;
  if (cubin.size != 0) {
    images.push_back(CreateDeviceImage(builder, ImageKind::cubin, cubin.offset, cubin.size));
  }
  images.push_back(CreateDeviceImage(builder, ImageKind::ptx, ptx.offset, ptx.size));
  int64_t shared = 0;
  for (const cuda::CompiledKernel &kernel : code.kernels) {
    for (const cuda::Stage &stage : kernel.stages) {
      shared = std::max(shared, stage.shared_bytes);
    }
  }
  auto name = builder.CreateString(code.target.name());
  auto imageTable = builder.CreateVector(images);
  auto layoutTable = layouts();
  auto programs = programTable(code);
  return CreateDeviceTarget(builder, name, code.target.compute_capability, code.target.exact,
                            code.target.ptx_version, imageTable, layoutTable, programs, shared);
}

TableOf<DeviceProgram> DeviceWriter::programTable(const cuda::CompiledTarget &code) {
  static const std::vector<uint64_t> noScratch;
  std::vector<Offset<DeviceProgram>> table;
  size_t next = 0;
  for (const DeviceProgramInput &program : programs) {
    ir::ModelOp model = modelOf(program.module);
    ProgramWriter writer(builder, model, weights, noScratch);
    auto buffers = writer.buffers();
    auto kernels = writer.kernels();
    auto blocks = writer.blocks(programOf(model));
    std::vector<Offset<DeviceKernel>> deviceKernels;
    for ([[maybe_unused]] ir::KernelOp op : model.getOps<ir::KernelOp>()) {
      deviceKernels.push_back(kernel(code.kernels.at(next++)));
    }
    auto kernelTable = builder.CreateVector(deviceKernels);
    table.push_back(CreateDeviceProgram(builder, program.max_tokens, buffers, kernels, kernelTable, blocks));
  }
  return builder.CreateVector(table);
}

Offset<DeviceStage> DeviceWriter::stage(const cuda::Stage &stage) {
  GridSize x = toGrid(stage.grid[0]), y = toGrid(stage.grid[1]), z = toGrid(stage.grid[2]);
  return CreateDeviceStage(builder, builder.CreateString(stage.function), &x, &y, &z, stage.threads,
                           stage.shared_bytes);
}

Offset<LibraryStage> DeviceWriter::libraryStage(const cuda::LibraryStage &either) {
  if (const cuda::Stage *launch = std::get_if<cuda::Stage>(&either)) {
    return CreateLibraryStage(builder, stage(*launch));
  }
  const cuda::GemmStage &g = std::get<cuda::GemmStage>(either);
  return CreateLibraryStage(builder, 0,
                            CreateDeviceGemm(builder, uint32_t(g.weight), uint32_t(g.outputs),
                                             uint32_t(g.depth), uint32_t(g.activation_stride),
                                             int32_t(g.result), uint32_t(g.column), uint32_t(g.result_stride),
                                             int32_t(g.addend), int32_t(g.scale)));
}

Offset<DeviceKernel> DeviceWriter::kernel(const cuda::CompiledKernel &kernel) {
  std::vector<Offset<DeviceStage>> stages;
  for (const cuda::Stage &each : kernel.stages) {
    stages.push_back(stage(each));
  }
  std::vector<Offset<LibraryStage>> library;
  for (const cuda::LibraryStage &each : kernel.library) {
    library.push_back(libraryStage(each));
  }
  auto sizeOf = [](const cuda::ScratchSize &size) {
    return Size(size.bytes, size.per_token, size.per_logit_row, size.per_position, 0);
  };
  Size scratch = sizeOf(kernel.scratch), libraryScratch = sizeOf(kernel.library_scratch);
  auto stageTable = builder.CreateVector(stages);
  return library.empty() ? CreateDeviceKernel(builder, stageTable, &scratch)
                         : CreateDeviceKernel(builder, stageTable, &scratch, builder.CreateVector(library),
                                              &libraryScratch);
}

// The layouts that kernels address, see compiler/Codegen/CUDA/WeightPacking.h.
Offset<flatbuffers::Vector<DeviceLayout>> DeviceWriter::layouts() {
  std::vector<DeviceLayout> table(weights.size());
  for (ir::WeightOp op : modelOf(programs.front().module).getOps<ir::WeightOp>()) {
    bool matrix = llvm::cast<mlir::RankedTensorType>(op.getType()).getRank() == 2;
    table[weights.at(op.getSymName())] = !matrix            ? DeviceLayout::vector
                                         : op.isPerExpert() ? DeviceLayout::tiles
                                                            : DeviceLayout::rows;
  }
  return builder.CreateVector(table);
}

} // namespace smelt::artifact
