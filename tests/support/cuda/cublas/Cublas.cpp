// cublas*: handles, streams, GEMM.
#include "tests/support/cuda/cublas/Gemm.h"

#include <utility>

using namespace smelt::emu;

struct cublasContext {
  void *stream = nullptr;
  int pointer_mode = CUBLAS_POINTER_MODE_HOST;
};

SMELT_CUBLAS_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, void *stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                                                         size_t bytes) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasSetMathMode(cublasHandle_t handle, int mode) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT const char *cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "success";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "the library was not initialized";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "the resource allocation failed";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "an invalid value was used";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "the function failed to launch on the GPU";
  case CUBLAS_STATUS_INTERNAL_ERROR:
    return "an internal operation failed";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "the functionality is not supported";
  }
  return "unknown cuBLAS status";
}

/// Column-major, as BLAS: C[m][n] = alpha op(A)[m][k] op(B)[k][n] + beta C.
SMELT_CUBLAS_EXPORT cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m, int n, int k,
    const void *alpha, const void *a, cudaDataType_t a_type, int lda, long long stride_a, const void *b,
    cudaDataType_t b_type, int ldb, long long stride_b, const void *beta, void *c, cudaDataType_t c_type,
    int ldc, long long stride_c, int batches, cublasComputeType_t compute, int algorithm) {
  if (!handle) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (m < 0 || n < 0 || k < 0 || lda < (trans_a ? k : m) || ldb < (trans_b ? n : k) || ldc < m || !alpha ||
      !beta) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (compute == CUBLAS_COMPUTE_16F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Gemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.batches = batches;
  gemm.a = {a, a_type, trans_a ? lda : 1, trans_a ? 1 : lda, stride_a};
  gemm.b = {b, b_type, trans_b ? ldb : 1, trans_b ? 1 : ldb, stride_b};
  gemm.c = gemm.d = {c, c_type, 1, ldc, stride_c};
  if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    gemm.alpha_device = alpha;
    gemm.beta_device = beta;
  } else {
    gemm.alpha = *static_cast<const float *>(alpha);
    gemm.beta = *static_cast<const float *>(beta);
  }
  return enqueueGemm(handle->stream, gemm);
}

SMELT_CUBLAS_EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t trans_a,
                                                cublasOperation_t trans_b, int m, int n, int k,
                                                const void *alpha, const void *a, cudaDataType_t a_type,
                                                int lda, const void *b, cudaDataType_t b_type, int ldb,
                                                const void *beta, void *c, cudaDataType_t c_type, int ldc,
                                                cublasComputeType_t compute, int algorithm) {
  return cublasGemmStridedBatchedEx(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type,
                                    ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
