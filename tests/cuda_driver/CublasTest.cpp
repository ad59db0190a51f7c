// The cuBLAS stand-in against plain products, alone and in a captured graph.
#include "tests/cuda_driver/Ptx.h"
#include "tests/support/cuda/cublas/CublasTypes.h"
#include "tests/support/cuda/driver/DriverTypes.h"

#include <catch2/catch.hpp>
#include <dlfcn.h>

using namespace smelt::tests;

namespace {

template <class... Args> int blas(const char *name, Args... args) {
  TestDevice::get();
  static void *library = dlopen(SMELT_TEST_CUBLAS_PATH, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  void *found = dlsym(library, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<int (*)(Args...)>(found)(args...);
}

template <class... Args> CUresult cu(const char *name, Args... args) {
  return reinterpret_cast<CUresult (*)(Args...)>(TestDevice::get().symbol(name))(args...);
}

constexpr int kM = 5, kN = 7, kK = 9;

uint16_t bf16(float v) { return static_cast<uint16_t>(bits(v) >> 16); }
float small(int i) { return float(i * 37 % 11 - 5); }

/// W[m][k] and x[n][k] by rows, as the runtime keeps weights and activations.
struct Operands {
  std::vector<uint16_t> w, x;
  std::vector<float> y;
  Operands() : y(kN * kM, 2.0f) {
    for (int i = 0; i < kM * kK; ++i) {
      w.push_back(bf16(small(i)));
    }
    for (int i = 0; i < kN * kK; ++i) {
      x.push_back(bf16(small(i + 3)));
    }
  }
  float want(int n, int m) const {
    float sum = 0;
    for (int k = 0; k < kK; ++k) {
      sum += small(m * kK + k) * small(n * kK + k + 3);
    }
    return 0.5f * sum + 2.0f;
  }
};

void *pointer(const DeviceBuffer &buffer) { return reinterpret_cast<void *>(buffer.address()); }

} // namespace

TEST_CASE("cublasGemmEx") {
  const Operands o;
  TestDevice &device = TestDevice::get();
  const DeviceBuffer w = device.upload(o.w), x = device.upload(o.x), y = device.upload(o.y);
  cublasHandle_t handle = nullptr;
  REQUIRE(blas("cublasCreate_v2", &handle) == CUBLAS_STATUS_SUCCESS);
  const float alpha = 0.5f, beta = 1.0f;
  // Column-major: y^T[m][n] = W[m][k] x^T[k][n], W stored transposed.
  REQUIRE(blas("cublasGemmEx", handle, CUBLAS_OP_T, CUBLAS_OP_N, kM, kN, kK,
               static_cast<const void *>(&alpha), static_cast<const void *>(pointer(w)), CUDA_R_16BF, kK,
               static_cast<const void *>(pointer(x)), CUDA_R_16BF, kK, static_cast<const void *>(&beta),
               pointer(y), CUDA_R_32F, kM, CUBLAS_COMPUTE_32F, -1) == CUBLAS_STATUS_SUCCESS);
  cu("cuCtxSynchronize");
  const auto got = y.read<float>();
  for (int n = 0; n < kN; ++n) {
    for (int m = 0; m < kM; ++m) {
      CHECK(got[n * kM + m] == o.want(n, m));
    }
  }
  CHECK(blas("cublasGemmEx", handle, CUBLAS_OP_T, CUBLAS_OP_N, kM, kN, kK, static_cast<const void *>(&alpha),
             static_cast<const void *>(pointer(w)), CUDA_R_16BF, kK - 1,
             static_cast<const void *>(pointer(x)), CUDA_R_16BF, kK, static_cast<const void *>(&beta),
             pointer(y), CUDA_R_32F, kM, CUBLAS_COMPUTE_32F, -1) == CUBLAS_STATUS_INVALID_VALUE);
  blas("cublasDestroy_v2", handle);
}

TEST_CASE("cublasLtMatmul, captured") {
  const Operands o;
  TestDevice &device = TestDevice::get();
  const DeviceBuffer w = device.upload(o.w), x = device.upload(o.x), y = device.upload(o.y);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t lw = nullptr, lx = nullptr, ly = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  REQUIRE(blas("cublasLtCreate", &handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(blas("cublasLtMatmulDescCreate", &desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  const int transpose = CUBLAS_OP_T;
  REQUIRE(blas("cublasLtMatmulDescSetAttribute", desc, CUBLASLT_MATMUL_DESC_TRANSA,
               static_cast<const void *>(&transpose), sizeof transpose) == CUBLAS_STATUS_SUCCESS);
  blas("cublasLtMatrixLayoutCreate", &lw, CUDA_R_16BF, uint64_t(kK), uint64_t(kM), int64_t(kK));
  blas("cublasLtMatrixLayoutCreate", &lx, CUDA_R_16BF, uint64_t(kK), uint64_t(kN), int64_t(kK));
  blas("cublasLtMatrixLayoutCreate", &ly, CUDA_R_32F, uint64_t(kM), uint64_t(kN), int64_t(kM));
  blas("cublasLtMatmulPreferenceCreate", &preference);
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  REQUIRE(blas("cublasLtMatmulAlgoGetHeuristic", handle, desc, lw, lx, ly, ly, preference, 1, &result,
               &found) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(found == 1);
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  cu("cuStreamCreate", &stream, 1u);
  cu("cuStreamBeginCapture_v2", stream, 0u);
  const float alpha = 0.5f, beta = 1.0f;
  REQUIRE(blas("cublasLtMatmul", handle, desc, static_cast<const void *>(&alpha),
               static_cast<const void *>(pointer(w)), lw, static_cast<const void *>(pointer(x)), lx,
               static_cast<const void *>(&beta), static_cast<const void *>(pointer(y)), ly, pointer(y), ly,
               static_cast<const cublasLtMatmulAlgo_t *>(&result.algo), static_cast<void *>(nullptr),
               size_t(0), static_cast<void *>(stream)) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cu("cuStreamEndCapture", stream, &graph) == CUDA_SUCCESS);
  cu("cuGraphInstantiateWithFlags", &exec, graph, 0ull);
  cu("cuGraphLaunch", exec, stream);
  REQUIRE(cu("cuStreamSynchronize", stream) == CUDA_SUCCESS);
  const auto got = y.read<float>();
  for (int n = 0; n < kN; ++n) {
    for (int m = 0; m < kM; ++m) {
      CHECK(got[n * kM + m] == o.want(n, m));
    }
  }
  cu("cuGraphExecDestroy", exec);
  cu("cuGraphDestroy", graph);
  cu("cuStreamDestroy_v2", stream);
}
