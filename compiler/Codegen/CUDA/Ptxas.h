// Machine code from PTX through the assembler of a CUDA toolkit, where there is one.
#pragma once

#include "compiler/Codegen/CUDA/CompileKernels.h"

#include <string>

namespace smelt::codegen::cuda {

// Path of ptxas: of $CUDA_HOME or $CUDA_PATH, on $PATH, or of /usr/local/cuda; empty when there is none.
std::string findPtxas();

enum class PtxasOutcome {
  assembled,
  unsupported, // this ptxas is too old for the chip or the PTX version: the driver may not be
  failed,      // it refuses the code, or cannot run
};

struct PtxasResult {
  PtxasOutcome outcome = PtxasOutcome::failed;
  std::vector<uint8_t> cubin;
  std::vector<FunctionStats> stats; // in the order ptxas names them, without dynamic shared memory
  std::vector<std::string> warnings;
  std::string message; // of ptxas, when it did not assemble
};

PtxasResult assemble(const std::string &ptxas, const std::string &ptx, const Target &target);

// What `ptxas -v` prints.
void parsePtxasLog(const std::string &log, PtxasResult &result);

} // namespace smelt::codegen::cuda
