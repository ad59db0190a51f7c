#include "ToyKernels.h"

/* Built without builtins and sanitizers: no call may leave the section. Float constants come as arguments,
 * since literals would lie in another section. */
#define TOY_KERNEL __attribute__((section("toy_kernels"), used, noinline, visibility("hidden")))

static inline __attribute__((always_inline)) int64_t claim(const smelt_kernel_args *args) {
  return __atomic_fetch_add(args->ticket, 1, __ATOMIC_RELAXED);
}

static inline __attribute__((always_inline)) float asFloat(int32_t bits) {
  union {
    int32_t bits;
    float value;
  } both = {bits};
  return both.value;
}

TOY_KERNEL int32_t toy_embed(const smelt_kernel_args *args, int32_t worker, int32_t workers) {
  const int32_t *tokens = args->bindings[0];
  const float *embedding = args->bindings[1];
  float *x = args->bindings[2];
  int64_t width = args->constants[1];
  for (int64_t t; (t = claim(args)) < args->constants[0];) {
    for (int64_t h = 0; h < width; ++h) {
      x[t * width + h] = embedding[tokens[t] * width + h];
    }
  }
  return 0;
}

TOY_KERNEL int32_t toy_append(const smelt_kernel_args *args, int32_t worker, int32_t workers) {
  const float *x = args->bindings[0];
  const int32_t *positions = args->bindings[1], *sequences = args->bindings[2];
  float *state = args->bindings[3];
  int64_t width = args->constants[1], capacity = args->constants[2];
  for (int64_t t; (t = claim(args)) < args->constants[0];) {
    for (int64_t h = 0; h < width; ++h) {
      state[(sequences[t] * capacity + positions[t]) * width + h] = x[t * width + h];
    }
  }
  return 0;
}

TOY_KERNEL int32_t toy_mix(const smelt_kernel_args *args, int32_t worker, int32_t workers) {
  float *x = args->bindings[0];
  const int32_t *positions = args->bindings[1], *sequences = args->bindings[2];
  const float *state = args->bindings[3], *scale = args->bindings[4];
  int64_t width = args->constants[1], capacity = args->constants[2];
  float a = asFloat(args->constants[3]), b = asFloat(args->constants[4]);
  for (int64_t t; (t = claim(args)) < args->constants[0];) {
    const float *rows = state + sequences[t] * capacity * width;
    for (int64_t h = 0; h < width; ++h) {
      float sum = rows[h];
      for (int64_t p = 1; p <= positions[t]; ++p) {
        sum += rows[p * width + h];
      }
      x[t * width + h] = a * scale[h] * x[t * width + h] + b * sum;
    }
  }
  return 0;
}

TOY_KERNEL int32_t toy_experts(const smelt_kernel_args *args, int32_t worker, int32_t workers) {
  float *x = args->bindings[0];
  const int32_t *tokens = args->bindings[1];
  const float *const *table = args->bindings[2];
  int64_t width = args->constants[1], experts = args->constants[2];
  for (int64_t t; (t = claim(args)) < args->constants[0];) {
    for (int64_t h = 0; h < width; ++h) {
      x[t * width + h] += table[tokens[t] % experts][h];
    }
  }
  return 0;
}

TOY_KERNEL int32_t toy_head(const smelt_kernel_args *args, int32_t worker, int32_t workers) {
  const float *x = args->bindings[0];
  const int32_t *rows = args->bindings[1];
  const float *embedding = args->bindings[2];
  float *logits = args->bindings[3];
  int64_t width = args->constants[1], vocab = args->constants[2];
  for (int64_t r; (r = claim(args)) < args->constants[0];) {
    for (int64_t v = 0; v < vocab; ++v) {
      float sum = embedding[v * width] * x[rows[r] * width];
      for (int64_t h = 1; h < width; ++h) {
        sum += embedding[v * width + h] * x[rows[r] * width + h];
      }
      logits[r * vocab + v] = sum;
    }
  }
  return 0;
}

TOY_KERNEL int32_t toy_fail(const smelt_kernel_args *args, int32_t worker, int32_t workers) { return 42; }

TOY_KERNEL int32_t toy_scratch(const smelt_kernel_args *args, int32_t worker, int32_t workers) {
  volatile int32_t *mine = (volatile int32_t *)(args->scratch + worker * args->scratch_stride);
  int64_t count = args->constants[0] / 4;
  for (int round = 0; round < 20; ++round) {
    for (int64_t i = 0; i < count; ++i) {
      mine[i] = worker + round;
    }
    for (int64_t i = 0; i < count; ++i) {
      if (mine[i] != worker + round) {
        return 1;
      }
    }
  }
  return 0;
}
