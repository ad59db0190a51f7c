#include "tests/support/cuda/cublas/Gemm.h"

#include "tests/support/cuda/sim/Half.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

// Exported by libsmelt_test_cuda.
extern "C" void *smelt_test_cuda_host_address(uint64_t address, size_t bytes, int write);
extern "C" int smelt_test_cuda_enqueue(void *stream, int (*run)(void *), void *data, void (*destroy)(void *));

namespace smelt::emu {
namespace {

constexpr int kIllegalAddress = 700;
std::atomic<uint64_t> products;

float load(int type, const uint8_t *from) {
  uint16_t half;
  float value;
  std::memcpy(&half, from, sizeof half);
  if (type == CUDA_R_16BF) {
    return bf16ToFloat(half);
  }
  if (type == CUDA_R_16F) {
    return f16ToFloat(half);
  }
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store(int type, uint8_t *to, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const uint16_t half = type == CUDA_R_16BF ? floatToBf16(value) : floatToF16(value);
  std::memcpy(to, &half, sizeof half);
}

/// Host memory of a whole matrix; null if it does not lie in one allocation.
uint8_t *hostOf(const GemmMatrix &matrix, int64_t rows, int64_t columns, int64_t batches, bool write) {
  const int64_t last =
      (rows - 1) * matrix.row_step + (columns - 1) * matrix.column_step + (batches - 1) * matrix.batch_step;
  const size_t bytes = static_cast<size_t>(last + 1) * gemmElementBytes(matrix.type);
  return static_cast<uint8_t *>(
      smelt_test_cuda_host_address(reinterpret_cast<uint64_t>(matrix.data), bytes, write));
}

/// The matrix as floats, row by row.
std::vector<float> gather(const GemmMatrix &matrix, const uint8_t *host, int64_t rows, int64_t columns,
                          int64_t batch) {
  const auto bytes = static_cast<int64_t>(gemmElementBytes(matrix.type));
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = i * matrix.row_step + j * matrix.column_step + batch * matrix.batch_step;
      values[static_cast<size_t>(i * columns + j)] = load(matrix.type, host + at * bytes);
    }
  }
  return values;
}

bool deviceScalar(const void *address, float &value) {
  const void *host = smelt_test_cuda_host_address(reinterpret_cast<uint64_t>(address), sizeof value, 0);
  if (host) {
    std::memcpy(&value, host, sizeof value);
  }
  return host != nullptr;
}

int fault(const char *what) {
  std::fprintf(stderr, "smelt test cuBLAS: %s lies outside device memory\n", what);
  return kIllegalAddress;
}

int run(void *data) {
  Gemm g = *static_cast<const Gemm *>(data);
  if ((g.alpha_device && !deviceScalar(g.alpha_device, g.alpha)) ||
      (g.beta_device && !deviceScalar(g.beta_device, g.beta))) {
    return fault("alpha or beta");
  }
  const uint8_t *a = hostOf(g.a, g.m, g.k, g.batches, false), *b = hostOf(g.b, g.k, g.n, g.batches, false);
  const uint8_t *c = g.beta != 0 ? hostOf(g.c, g.m, g.n, g.batches, false) : nullptr;
  const uint8_t *bias = g.bias.data ? hostOf(g.bias, g.m, 1, 1, false) : nullptr;
  uint8_t *d = hostOf(g.d, g.m, g.n, g.batches, true);
  if (!a || !b || !d || (g.beta != 0 && !c) || (g.bias.data && !bias)) {
    return fault(!a ? "A" : !b ? "B" : !d ? "D" : "C or the bias");
  }
  if (g.workspace_bytes) {
    void *used = smelt_test_cuda_host_address(reinterpret_cast<uint64_t>(g.workspace), g.workspace_bytes, 1);
    if (!used) {
      return fault("the workspace");
    }
    std::memset(used, 0xff, g.workspace_bytes);
  }
  const auto bytes = static_cast<int64_t>(gemmElementBytes(g.d.type));
  for (int64_t batch = 0; batch < g.batches; ++batch) {
    const std::vector<float> left = gather(g.a, a, g.m, g.k, batch), right = gather(g.b, b, g.k, g.n, batch);
    std::vector<float> sum(static_cast<size_t>(g.m * g.n), 0.0f);
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t k = 0; k < g.k; ++k) {
        const float x = left[static_cast<size_t>(i * g.k + k)];
        for (int64_t j = 0; j < g.n; ++j) {
          sum[static_cast<size_t>(i * g.n + j)] += x * right[static_cast<size_t>(k * g.n + j)];
        }
      }
    }
    const std::vector<float> old = c ? gather(g.c, c, g.m, g.n, batch) : std::vector<float>();
    const std::vector<float> added = bias ? gather(g.bias, bias, g.m, 1, 0) : std::vector<float>();
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        const auto at = static_cast<size_t>(i * g.n + j);
        float value = g.alpha * sum[at] + (c ? g.beta * old[at] : 0.0f);
        value += bias ? added[static_cast<size_t>(i)] : 0.0f;
        store(g.d.type, d + (i * g.d.row_step + j * g.d.column_step + batch * g.d.batch_step) * bytes, value);
      }
    }
  }
  return 0;
}

} // namespace

size_t gemmElementBytes(int type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

cublasStatus_t enqueueGemm(void *stream, const Gemm &gemm) {
  for (const GemmMatrix *matrix : {&gemm.a, &gemm.b, &gemm.d}) {
    if (!gemmElementBytes(matrix->type)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  if (gemm.a.type != gemm.b.type || gemm.c.type != gemm.d.type) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (gemm.m == 0 || gemm.n == 0) {
    return CUBLAS_STATUS_SUCCESS;
  }
  ++products;
  const int code = smelt_test_cuda_enqueue(stream, run, new Gemm(gemm),
                                           [](void *data) { delete static_cast<Gemm *>(data); });
  return code == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // namespace smelt::emu

/// Products that were put on a stream, for tests that want to know whether any were.
SMELT_CUBLAS_EXPORT uint64_t smelt_test_cublas_products() { return smelt::emu::products; }
