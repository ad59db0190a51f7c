// The product behind both interfaces.
#pragma once

#include "tests/support/cuda/cublas/CublasTypes.h"

namespace smelt::emu {

/// One matrix in device memory: element (i, j) at index i * row_step + j * column_step.
struct GemmMatrix {
  const void *data = nullptr;
  int type = CUDA_R_16BF;
  int64_t row_step = 1, column_step = 1, batch_step = 0;
};

/// D[m][n] = alpha * A[m][k] B[k][n] + beta * C[m][n] (+ bias[m]), summed in f32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  GemmMatrix a, b, c, d;
  float alpha = 1, beta = 0;
  const void *alpha_device = nullptr, *beta_device = nullptr; ///< read when the product runs, if set
  GemmMatrix bias;                                            ///< a column, if data is set
  void *workspace = nullptr; ///< filled with nonsense before the product, as partial sums would
  size_t workspace_bytes = 0;
};

/// Queues the product on a stream of the look-alike driver, captured like a kernel.
cublasStatus_t enqueueGemm(void *stream, const Gemm &gemm);

/// Bytes of an element; 0 for a type that is not handled.
size_t gemmElementBytes(int type);

} // namespace smelt::emu
