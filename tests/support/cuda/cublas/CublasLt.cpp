// cublasLt*: descriptors, layouts, one algorithm, matmul.
#include "tests/support/cuda/cublas/Gemm.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

using namespace smelt::emu;

struct cublasLtContext {};

namespace {

template <class T> cublasStatus_t setValue(T &to, const void *from, size_t bytes) {
  if (!from || bytes != sizeof(T)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&to, from, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

GemmMatrix matrixOf(const void *data, const cublasLtMatrixLayoutOpaque &layout, int operation) {
  const bool by_rows = (layout.order == CUBLASLT_ORDER_ROW) != (operation != CUBLAS_OP_N);
  return {data, layout.type, by_rows ? layout.ld : 1, by_rows ? 1 : layout.ld, layout.stride};
}

bool leadingFits(const cublasLtMatrixLayoutOpaque &layout) {
  const uint64_t least = layout.order == CUBLASLT_ORDER_ROW ? layout.cols : layout.rows;
  return layout.ld >= 0 && static_cast<uint64_t>(layout.ld) >= least;
}

bool supported(const cublasLtMatmulDescOpaque &desc) {
  return desc.compute != CUBLAS_COMPUTE_16F && desc.scale == CUDA_R_32F &&
         (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || desc.epilogue == CUBLASLT_EPILOGUE_BIAS);
}

/// The status that SMELT_TEST_CUBLAS_FAIL=function:status plans for a function; success when it names another.
cublasStatus_t planned(std::string_view function) {
  const char *plan = std::getenv("SMELT_TEST_CUBLAS_FAIL");
  const std::string_view text = plan ? plan : "";
  const size_t colon = text.find(':');
  return text.substr(0, colon) == function && colon != text.npos
             ? static_cast<cublasStatus_t>(std::atoi(std::string(text.substr(colon + 1)).c_str()))
             : CUBLAS_STATUS_SUCCESS;
}

/// What an algorithm was chosen for; it is refused for anything else.
struct ChosenFor {
  uint64_t rows, columns;
  int64_t leading[3];
  uint64_t workspace;
  uint32_t alignments[4];
};
static_assert(sizeof(ChosenFor) <= sizeof(cublasLtMatmulAlgo_t));

bool aligned(const void *pointer, uint32_t to) { return reinterpret_cast<uintptr_t>(pointer) % to == 0; }

} // namespace

SMELT_CUBLAS_EXPORT const char *cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case CUBLAS_STATUS_INTERNAL_ERROR:
    return "CUBLAS_STATUS_INTERNAL_ERROR";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  if (const cublasStatus_t status = planned("cublasLtCreate"); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT size_t cublasLtGetVersion() {
  const char *version = std::getenv("SMELT_TEST_CUBLAS_VERSION");
  return version ? std::strtoull(version, nullptr, 10) : 130000;
}

SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                                            cublasComputeType_t compute,
                                                            cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque;
  (*desc)->compute = compute;
  (*desc)->scale = scale;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                                  cublasLtMatmulDescAttributes_t attribute,
                                                                  const void *value, size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
    return setValue(desc->compute, value, bytes);
  case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
    return setValue(desc->scale, value, bytes);
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return setValue(desc->pointer_mode, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return setValue(desc->trans_a, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return setValue(desc->trans_b, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return setValue(desc->epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return setValue(desc->bias, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                                              cudaDataType_t type, uint64_t rows,
                                                              uint64_t cols, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque;
  (*layout)->type = type;
  (*layout)->rows = rows;
  (*layout)->cols = cols;
  (*layout)->ld = ld;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                                    cublasLtMatrixLayoutAttribute_t attribute,
                                                                    const void *value, size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_TYPE:
    return setValue(layout->type, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return setValue(layout->order, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    return setValue(layout->rows, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    return setValue(layout->cols, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_LD:
    return setValue(layout->ld, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return setValue(layout->batches, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return setValue(layout->stride, value, bytes);
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return setValue(preference->workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return setValue(preference->reductions, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return setValue(preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                    bytes);
  case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    return CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t *results, int *count) {
  *count = 0;
  // 0 is a plan as well: no algorithm is found.
  if (const char *plan = std::getenv("SMELT_TEST_CUBLAS_FAIL");
      plan && std::string_view(plan).starts_with("cublasLtMatmulAlgoGetHeuristic:")) {
    return planned("cublasLtMatmulAlgoGetHeuristic");
  }
  if (requested < 1 || !leadingFits(*a) || !leadingFits(*b) || !leadingFits(*c) || !leadingFits(*d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!supported(*desc)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  std::memset(results, 0, sizeof *results);
  // Some of the workspace, which then is written.
  results->workspaceSize = std::min<uint64_t>(preference->workspace, 1 << 12);
  results->wavesCount = 1;
  ChosenFor chosen = {d->rows, d->cols, {a->ld, b->ld, d->ld}, results->workspaceSize, {}};
  std::memcpy(chosen.alignments, preference->alignments, sizeof chosen.alignments);
  std::memcpy(&results->algo, &chosen, sizeof chosen);
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

SMELT_CUBLAS_EXPORT cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
    cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
    const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
    const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
  if (!handle) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (!supported(*desc)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (const cublasStatus_t status = planned("cublasLtMatmul"); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const bool at = desc->trans_a != CUBLAS_OP_N, bt = desc->trans_b != CUBLAS_OP_N;
  Gemm gemm;
  gemm.m = static_cast<int64_t>(d_layout->rows);
  gemm.n = static_cast<int64_t>(d_layout->cols);
  gemm.k = static_cast<int64_t>(at ? a_layout->rows : a_layout->cols);
  gemm.batches = d_layout->batches;
  if ((at ? a_layout->cols : a_layout->rows) != d_layout->rows ||
      (bt ? b_layout->rows : b_layout->cols) != d_layout->cols ||
      static_cast<int64_t>(bt ? b_layout->cols : b_layout->rows) != gemm.k || !alpha || !beta ||
      !leadingFits(*a_layout) || !leadingFits(*b_layout) || !leadingFits(*c_layout) ||
      !leadingFits(*d_layout)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm) { // without one the library chooses
    ChosenFor chosen;
    std::memcpy(&chosen, algorithm, sizeof chosen);
    if (chosen.rows != d_layout->rows || chosen.columns != d_layout->cols ||
        chosen.leading[0] != a_layout->ld || chosen.leading[1] != b_layout->ld ||
        chosen.leading[2] != d_layout->ld || workspace_bytes < chosen.workspace ||
        !aligned(workspace, 16) || !aligned(a, chosen.alignments[0]) || !aligned(b, chosen.alignments[1]) ||
        !aligned(c, chosen.alignments[2]) || !aligned(d, chosen.alignments[3])) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    gemm.workspace = workspace;
    gemm.workspace_bytes = chosen.workspace;
  }
  gemm.a = matrixOf(a, *a_layout, desc->trans_a);
  gemm.b = matrixOf(b, *b_layout, desc->trans_b);
  gemm.c = matrixOf(c, *c_layout, CUBLAS_OP_N);
  gemm.d = matrixOf(d, *d_layout, CUBLAS_OP_N);
  if (desc->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    gemm.alpha_device = alpha;
    gemm.beta_device = beta;
  } else {
    gemm.alpha = *static_cast<const float *>(alpha);
    gemm.beta = *static_cast<const float *>(beta);
  }
  if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS) {
    gemm.bias = {desc->bias, d_layout->type, 1, 1, 0};
  }
  return enqueueGemm(stream, gemm);
}
