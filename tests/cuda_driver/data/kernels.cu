// Kernels in CUDA C, for the look-alike to run what a compiler other than ours emits. kernels.ptx is
//   nvcc -std=c++17 -arch=compute_80 -ptx -o kernels.ptx kernels.cu
#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(128) rms_norm(const __nv_bfloat16 *x, const float *w, __nv_bfloat16 *y, int n, float eps) {
  __shared__ float partial[4];
  const __nv_bfloat16 *row = x + size_t(blockIdx.x) * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = __bfloat162float(row[i]);
    sum += v * v;
  }
  for (int offset = 16; offset; offset >>= 1) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if (threadIdx.x % 32 == 0) {
    partial[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  const float scale = rsqrtf((partial[0] + partial[1] + partial[2] + partial[3]) / n + eps);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    y[size_t(blockIdx.x) * n + i] = __float2bfloat16(__bfloat162float(row[i]) * w[i] * scale);
  }
}

extern "C" __global__ void histogram(const unsigned char *bytes, int n, int *bins) {
  __shared__ int local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    local[i] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[bytes[i]], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (local[i]) {
      atomicAdd(&bins[i], local[i]);
    }
  }
}

extern "C" __global__ void interpret(const int *program, int length, long long *result) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  long long stack[8];
  int top = 0;
  stack[0] = thread;
  for (int pc = 0; pc < length; ++pc) {
    switch (program[2 * pc]) {
    case 0:
      stack[++top & 7] = program[2 * pc + 1];
      break;
    case 1:
      stack[(top - 1) & 7] += stack[top & 7];
      --top;
      break;
    case 2:
      stack[(top - 1) & 7] *= stack[top & 7];
      --top;
      break;
    case 3:
      stack[top & 7] = stack[top & 7] % 7;
      break;
    case 4:
      if (stack[top & 7] & 1) {
        pc += program[2 * pc + 1];
      }
      break;
    case 5:
      stack[top & 7] = -stack[top & 7];
      break;
    default:
      result[thread] = -1;
      return;
    }
  }
  result[thread] = stack[top & 7];
}
