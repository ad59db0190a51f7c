// Kernels of long steps whose products a library multiplies, see GemmLibrary.h.
#include "runtime/src/cuda/CudaRunner.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

namespace smelt::runtime::cuda {

using namespace artifact;

Result<bool> CudaRunner::libraryTakes(const CudaProgram &program, const DeviceLaunch &launch, uint64_t rows) {
  std::span<const LibraryStageCode> stages = program.libraryStages(launch);
  if (!library || rows < GemmLibrary::leastRows || stages.empty()) {
    return false;
  }
  for (const LibraryStageCode &stage : stages) {
    Result<bool> takes = stage.gemm ? library->prepare(program.gemm(launch, *stage.gemm, rows)) : true;
    if (!takes.ok() || !*takes) {
      return takes;
    }
  }
  return true;
}

Status CudaRunner::launchByLibrary(CudaProgram &program, const DeviceLaunch &launch, const Extent &step,
                                   uint64_t rows) {
  for (const LibraryStageCode &stage : program.libraryStages(launch)) {
    if (!stage.gemm) {
      if (Status status = launchStage(program, launch, stage.launch, step); !status.ok()) {
        return status;
      }
      continue;
    }
    Status status = library->run(program.gemm(launch, *stage.gemm, rows), libraryWorkspace.address(),
                                 stream.get());
    status = status.ok() && synchronous ? synchronize("run a product of cuBLASLt") : status;
    if (!status.ok()) {
      const Kernel &kernel = *program.plan().tables.kernels.Get(launch.kernel);
      status.message += fmt::format(", for kernel '{}' in block {} call {}, visit {}, layer {}",
                                    printable(kernel.name()->string_view()), launch.block, launch.callIndex,
                                    launch.visit, launch.layer);
      return status;
    }
  }
  return success();
}

std::string CudaRunner::gemm() const { return library ? library->describe() : "own kernels"; }

} // namespace smelt::runtime::cuda
