/* The compiled artifact, model.smelt, and the ABI of its kernels. Standalone C: this header is a schema;
 * every layout below is fixed for a major version and checked by static_assert.
 *
 *   offset 0                header, 64 bytes
 *   manifest_offset         manifest: a FlatBuffer, runtime/schema/manifest.fbs (weights, buffers, kernels,
 *                           step program, code variants, spec, budgets)
 *   code_offset             code: one position-independent image per ISA level, each 4096-byte aligned
 *
 * All integers are little-endian. docs/artifact.md holds the version rules. */
#ifndef SMELT_ARTIFACT_H
#define SMELT_ARTIFACT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SMELT_ARTIFACT_MAGIC "SMELTART"
/* A reader refuses another major version; a newer minor version only adds what an older reader may skip. */
#define SMELT_ARTIFACT_VERSION_MAJOR 1
#define SMELT_ARTIFACT_VERSION_MINOR 4
#define SMELT_ARTIFACT_CODE_ALIGNMENT 4096
/* The checksum covers the file from here on: all that follows it in the header, and the sections. */
#define SMELT_ARTIFACT_CHECKSUM_BEGIN 32

typedef struct smelt_artifact_header {
  char magic[8];          /* SMELT_ARTIFACT_MAGIC, no terminator */
  uint32_t version_major; /* first, so that every reader can name it */
  uint32_t version_minor;
  uint64_t file_size;       /* bytes in the whole file */
  uint64_t checksum;        /* XXH3-64, seed 0, of bytes [32, file_size) */
  uint64_t manifest_offset; /* bytes from the start of the file; 64-byte aligned */
  uint64_t manifest_size;
  uint64_t code_offset; /* SMELT_ARTIFACT_CODE_ALIGNMENT aligned */
  uint64_t code_size;
} smelt_artifact_header;
static_assert(sizeof(smelt_artifact_header) == 64, "the header is one cache line");
static_assert(offsetof(smelt_artifact_header, manifest_offset) == SMELT_ARTIFACT_CHECKSUM_BEGIN,
              "the checksum covers what follows it");

/* CPU features a code variant may require; bits of CodeVariant.features. */
enum {
  SMELT_CPU_AVX2 = 1 << 0,        /* with FMA, BMI2, F16C: x86-64-v3 */
  SMELT_CPU_AVX512 = 1 << 1,      /* F, BW, CD, DQ, VL: x86-64-v4 */
  SMELT_CPU_AVX512_BF16 = 1 << 2, /* VDPBF16PS */
  SMELT_CPU_AVX512_VNNI = 1 << 3, /* VPDPWSSD */
};

/* What a kernel sees. The same structure is handed to every worker of a launch.
 *
 * A kernel uses nothing else: no libc, no globals, no thread-local storage, and at most 16 KiB of stack.
 * Bindings may be unaligned beyond their element size (weights are mapped where the file has them);
 * workspace, state and scratch are 64-byte aligned. */
typedef struct smelt_kernel_args {
  void *const *bindings;    /* [binding_count], in the order of Call.bindings */
  const int32_t *constants; /* [constant_count], in the order of Call.constants; floats by their bits */
  int64_t *ticket;          /* shared work counter on a cache line of its own; zero when a launch starts */
  char *scratch;            /* worker w owns bytes [w * scratch_stride, w * scratch_stride + scratch bytes) */
  uint64_t scratch_stride;  /* bytes, a multiple of 64 */
  uint64_t reserved[3];     /* zero */
} smelt_kernel_args;
static_assert(sizeof(smelt_kernel_args) == 64, "the arguments are one cache line");

/* How the kernels argmax and sample of a device pick a token for one row of logits, in the terms of
 * runtime/src/Sampler.h. They write it to the row's element of the buffer `sampled`, or -1 - i when i is the
 * first token whose logit is not finite. */
typedef struct smelt_draw {
  uint64_t seed, stream, step; /* of the random number */
  double inverse_temperature;  /* sample only */
  uint64_t share;              /* of the total weight to keep, times 2^64; 0: all; sample only */
  uint32_t top_k;              /* 0: all; sample only */
  uint32_t advance;            /* 1: prepare the next step, in which row r is token r: put the token into
                                  token_ids, and add 1 to its position and to `step` */
} smelt_draw;
static_assert(sizeof(smelt_draw) == 48, "kernels address its members");
static_assert(offsetof(smelt_draw, inverse_temperature) == 24, "kernels address its members");
static_assert(offsetof(smelt_draw, top_k) == 40, "kernels address its members");

/* Runs one worker's share. Workers claim units of work with an atomic add on *ticket, so any number of
 * workers from 1 up gives the same bits. Returns 0; anything else fails the step with that code. */
typedef int32_t (*smelt_kernel_fn)(const smelt_kernel_args *args, int32_t worker, int32_t workers);

#endif /* SMELT_ARTIFACT_H */
