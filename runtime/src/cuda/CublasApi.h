// The part of cuBLASLt that is used here, found with dlopen beside the driver. Types and constants are
// declared here, so no CUDA header is needed; names and values are those of cublasLt.h, the same in versions
// 12 and 13 (tests/cuda_driver/CublasHeaderTest.cpp compares them where there is one).
#pragma once

#include "runtime/src/Status.h"
#include "runtime/src/cuda/DriverApi.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace smelt::runtime::cuda {

struct CublasLtTag;
struct MatmulDescTag;
struct MatrixLayoutTag;
struct MatmulPreferenceTag;
using CublasLt = CublasLtTag *;                 // cublasLtHandle_t
using MatmulDesc = MatmulDescTag *;             // cublasLtMatmulDesc_t
using MatrixLayout = MatrixLayoutTag *;         // cublasLtMatrixLayout_t
using MatmulPreference = MatmulPreferenceTag *; // cublasLtMatmulPreference_t

enum CublasStatus : int { cublas_not_supported = 15 };
enum CublasDataType : int { cublas_f32 = 0, cublas_bf16 = 14 };
enum CublasCompute : int { cublas_compute_f32 = 68 };
enum CublasOperation : int32_t { cublas_transposed = 1 };
enum MatmulDescAttribute : int { matmul_transpose_a = 3 };
enum MatmulPreferenceAttribute : int {
  preference_workspace_bytes = 1, // uint64_t
  preference_reductions = 3,      // uint32_t, of MatmulReduction
  preference_alignment_a = 5,     // uint32_t, of pointers, in bytes; then B, C, D
};
// How partial sums over k may be added up, besides not having any.
enum MatmulReduction : uint32_t { reduction_in_compute_type = 2 };

struct MatmulAlgorithm { // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct MatmulChoice { // cublasLtMatmulHeuristicResult_t
  MatmulAlgorithm algorithm;
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

// X(member, symbol, parameters): every function returns a cublasStatus_t, 0 for success.
#define SMELT_CUBLASLT_API(X)                                                                                \
  X(create, "cublasLtCreate", (CublasLt * handle))                                                           \
  X(destroy, "cublasLtDestroy", (CublasLt handle))                                                           \
  X(descCreate, "cublasLtMatmulDescCreate", (MatmulDesc * desc, int compute, int scaleType))                 \
  X(descDestroy, "cublasLtMatmulDescDestroy", (MatmulDesc desc))                                             \
  X(descSet, "cublasLtMatmulDescSetAttribute",                                                               \
    (MatmulDesc desc, int attribute, const void *value, size_t bytes))                                       \
  X(layoutCreate, "cublasLtMatrixLayoutCreate",                                                              \
    (MatrixLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                     \
  X(layoutDestroy, "cublasLtMatrixLayoutDestroy", (MatrixLayout layout))                                     \
  X(preferenceCreate, "cublasLtMatmulPreferenceCreate", (MatmulPreference * preference))                     \
  X(preferenceDestroy, "cublasLtMatmulPreferenceDestroy", (MatmulPreference preference))                     \
  X(preferenceSet, "cublasLtMatmulPreferenceSetAttribute",                                                   \
    (MatmulPreference preference, int attribute, const void *value, size_t bytes))                           \
  X(chooseAlgorithm, "cublasLtMatmulAlgoGetHeuristic",                                                       \
    (CublasLt handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c, MatrixLayout d,       \
     MatmulPreference preference, int requested, MatmulChoice *choices, int *found))                         \
  X(matmul, "cublasLtMatmul",                                                                                \
    (CublasLt handle, MatmulDesc desc, const void *alpha, const void *a, MatrixLayout layoutA,               \
     const void *b, MatrixLayout layoutB, const void *beta, const void *c, MatrixLayout layoutC, void *d,    \
     MatrixLayout layoutD, const MatmulAlgorithm *algorithm, void *workspace, size_t workspaceBytes,         \
     Stream stream))

struct CublasApi {
  // The library that SMELT_CUBLAS_LIBRARY names, or libcublasLt.so.13 or .12, opened once and never closed.
  // Null when none is named and there is neither, or SMELT_CUDA_LIBRARY names a driver, which another
  // library might not go with. SMELT_unsupported when the one that is named cannot be opened, or the one that
  // is found cannot be used: functions are missing, or its version is not 12 or 13.
  static Result<const CublasApi *> load();
  // The library that SMELT_CUBLAS_LIBRARY names; empty when it names none.
  static std::string named();

  // "cuBLASLt 13.1.0"
  std::string versionText() const;
  // "CUBLAS_STATUS_NOT_SUPPORTED (15)"
  std::string statusText(int code) const;

  std::string library;
  size_t version = 0; // major * 10000 + minor * 100 + patch
  size_t (*getVersion)() = nullptr;
  const char *(*statusName)(int code) = nullptr;
#define SMELT_CUBLASLT_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  SMELT_CUBLASLT_API(SMELT_CUBLASLT_MEMBER)
#undef SMELT_CUBLASLT_MEMBER
};

} // namespace smelt::runtime::cuda
