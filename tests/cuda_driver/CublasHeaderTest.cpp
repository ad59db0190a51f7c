// What the runtime and the stand-in declare of cuBLASLt is what its header says; built where there is one.
#include "runtime/src/cuda/CublasApi.h"

#include <cstddef>
#include <cublasLt.h>

namespace cuda = smelt::runtime::cuda;

static_assert(cuda::cublas_not_supported == int(CUBLAS_STATUS_NOT_SUPPORTED));
static_assert(cuda::cublas_f32 == int(CUDA_R_32F));
static_assert(cuda::cublas_bf16 == int(CUDA_R_16BF));
static_assert(cuda::cublas_compute_f32 == int(CUBLAS_COMPUTE_32F));
static_assert(cuda::cublas_transposed == int(CUBLAS_OP_T));
static_assert(cuda::matmul_transpose_a == int(CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(cuda::preference_workspace_bytes == int(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(cuda::preference_reductions == int(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK));
static_assert(cuda::preference_alignment_a == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
static_assert(cuda::preference_alignment_a + 1 == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES));
static_assert(cuda::preference_alignment_a + 2 == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES));
static_assert(cuda::preference_alignment_a + 3 == int(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
static_assert(cuda::reduction_in_compute_type == int(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));

static_assert(sizeof(cuda::MatmulAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(cuda::MatmulChoice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cuda::MatmulChoice, workspaceBytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(cuda::MatmulChoice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

// Functions take as many parameters, each as large.
template <typename... Ours> constexpr size_t countOf(int (*)(Ours...)) { return sizeof...(Ours); }
template <typename... Theirs> constexpr size_t countOf(cublasStatus_t (*)(Theirs...)) {
  return sizeof...(Theirs);
}
template <typename... Ours, typename... Theirs>
constexpr bool sameSizes(int (*)(Ours...), cublasStatus_t (*)(Theirs...)) {
  return ((sizeof(Ours) == sizeof(Theirs)) && ...);
}
template <typename Ours, typename Theirs> constexpr bool sameShape(Ours ours, Theirs theirs) {
  if constexpr (countOf(Ours()) != countOf(Theirs())) {
    return false;
  } else {
    return sameSizes(ours, theirs);
  }
}
#define SMELT_SAME(member, function)                                                                         \
  static_assert(sameShape(decltype(cuda::CublasApi::member)(), decltype(&(function))()))
SMELT_SAME(create, cublasLtCreate);
SMELT_SAME(destroy, cublasLtDestroy);
SMELT_SAME(descCreate, cublasLtMatmulDescCreate);
SMELT_SAME(descDestroy, cublasLtMatmulDescDestroy);
SMELT_SAME(descSet, cublasLtMatmulDescSetAttribute);
SMELT_SAME(layoutCreate, cublasLtMatrixLayoutCreate);
SMELT_SAME(layoutDestroy, cublasLtMatrixLayoutDestroy);
SMELT_SAME(preferenceCreate, cublasLtMatmulPreferenceCreate);
SMELT_SAME(preferenceDestroy, cublasLtMatmulPreferenceDestroy);
SMELT_SAME(preferenceSet, cublasLtMatmulPreferenceSetAttribute);
SMELT_SAME(chooseAlgorithm, cublasLtMatmulAlgoGetHeuristic);
SMELT_SAME(matmul, cublasLtMatmul);
