/* The C API of the runtime: open an artifact, bind weights, run steps, sample.
 *
 *   smelt_artifact *artifact; smelt_weights *weights; smelt_session *session; char *error = NULL;
 *   smelt_artifact_open("model.smelt", &artifact, &error);
 *   smelt_weights_open(artifact, paths, path_count, &weights, &error);
 *   smelt_session_options options; smelt_session_options_init(&options);
 *   options.capacity = 1024;
 *   smelt_session_create(artifact, weights, &options, &session, &error);
 *   smelt_session_forward(session, &step, logits, &error);
 *
 * Errors. Every function that can fail returns a smelt_status (status.h) and, when `error` is not NULL,
 * stores the message there: whole, for people, with every problem found and not the first alone. Free it with
 * smelt_error_free. On success *error is NULL. Output handles are NULL on failure.
 *
 * Lifetime. A session keeps what it needs of its artifact and weights alive, so handles may be closed in any
 * order. Strings and arrays handed out live as long as the handle they came from.
 *
 * Threads. An artifact and weights may be shared between threads. A session is used by one thread at a time,
 * except smelt_session_interrupt.
 *
 * Trust. An artifact holds machine code. The runtime checks its structure before it runs anything, but code
 * is code: open only artifacts you would run as a program. */
#ifndef SMELT_RUNTIME_H
#define SMELT_RUNTIME_H

#include "smelt/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct smelt_artifact smelt_artifact;
typedef struct smelt_weights smelt_weights;
typedef struct smelt_session smelt_session;

/* The values of DType in manifest.fbs. */
typedef enum smelt_dtype {
  SMELT_DTYPE_F32 = 0,
  SMELT_DTYPE_BF16 = 1,
  SMELT_DTYPE_I32 = 2,
  SMELT_DTYPE_I8 = 3 /* of weights: 8-bit codes and their scales */
} smelt_dtype;

void smelt_error_free(char *error);
/* One sentence on a status, e.g. "the weights do not fit the model". */
const char *smelt_status_text(smelt_status status);
/* "f32", "bf16", "i32", "i8", or "?" */
const char *smelt_dtype_name(smelt_dtype dtype);

/* ---- this machine -------------------------------------------------------------------------------------- */

/* SMELT_CPU_* bits (artifact.h) of what the CPU and the operating system support. */
uint64_t smelt_cpu_features(void);
/* The best level with a name: "x86-64-v4+bf16", "x86-64-v4+vnni", "x86-64-v4", "x86-64-v3" or "x86-64". */
const char *smelt_cpu_isa(void);
/* Bytes this process may still allocate: MemAvailable, lowered to what its memory cgroups allow. */
uint64_t smelt_available_memory(void);

/* ---- artifacts ----------------------------------------------------------------------------------------- */

/* Maps the file and verifies all of it; see docs/artifact.md.
 * SMELT_io: cannot be read. SMELT_artifact: damaged, or of another version. */
smelt_status smelt_artifact_open(const char *path, smelt_artifact **artifact, char **error);
void smelt_artifact_close(smelt_artifact *artifact);

typedef struct smelt_artifact_info {
  uint32_t version_major, version_minor; /* of the file */
  uint64_t file_size;                    /* bytes */
  const char *producer;                  /* "smeltc 0.1.0" */
  const char *target;                    /* "cpu" */
  const char *model_name;
  const char *spec_toml; /* the whole spec it was compiled from */
  uint32_t vocab_size;
  smelt_dtype weights_dtype;
  uint32_t budget_count, weight_count, buffer_count, kernel_count, block_count, variant_count;
  uint64_t tensor_count;   /* weight tensors wanted, each layer's and expert's counted */
  uint64_t weight_bytes;   /* of all of them */
  uint64_t calls_per_step; /* kernel launches of one step */
  uint64_t code_size;      /* bytes, all variants and devices */
  uint32_t device_count;
} smelt_artifact_info;
void smelt_artifact_get_info(const smelt_artifact *artifact, smelt_artifact_info *info);

typedef struct smelt_budget_info {
  const char *name;
  uint64_t value;
} smelt_budget_info;

/* A family of tensors: one per layer, and per expert when experts > 0. */
typedef struct smelt_weight_info {
  const char *name; /* with {layer} and {expert} where the numbers go */
  smelt_dtype dtype;
  const uint64_t *shape; /* of one tensor */
  uint32_t rank;
  uint32_t first_layer, layers; /* layers = 0: not in a layer */
  uint32_t experts;             /* 0: not per expert */
  uint64_t tensor_bytes;        /* of one tensor, the scales of i8 included */
} smelt_weight_info;

typedef struct smelt_kernel_info {
  const char *name, *role;
  uint32_t calls_per_step; /* launches, visits and layers counted */
  uint64_t scratch_bytes;  /* per worker */
} smelt_kernel_info;

typedef struct smelt_variant_info {
  const char *isa;
  uint64_t features, size;
  bool supported; /* by this machine */
} smelt_variant_info;

/* A device the artifact holds code for. */
typedef struct smelt_device_info {
  const char *name;            /* "cuda:sm_90a" */
  uint32_t compute_capability; /* major * 10 + minor: the lowest it runs on */
  bool exact;                  /* runs on this compute capability alone */
  bool machine_code, ptx;      /* what it holds */
  uint64_t size;               /* bytes of code */
  uint32_t program_count;      /* step programs, for steps of different lengths */
  uint64_t launches_per_step;  /* of the first program: stages, visits and layers counted */
} smelt_device_info;

/* The index-th one; false when there is none. */
bool smelt_artifact_get_device(const smelt_artifact *artifact, uint32_t index, smelt_device_info *info);
bool smelt_artifact_get_budget(const smelt_artifact *artifact, uint32_t index, smelt_budget_info *info);
bool smelt_artifact_get_weight(const smelt_artifact *artifact, uint32_t index, smelt_weight_info *info);
bool smelt_artifact_get_kernel(const smelt_artifact *artifact, uint32_t index, smelt_kernel_info *info);
bool smelt_artifact_get_variant(const smelt_artifact *artifact, uint32_t index, smelt_variant_info *info);

/* ---- weights ------------------------------------------------------------------------------------------- */

/* Maps safetensors files (read-only, nothing copied unless a file breaks element alignment) and matches them
 * against the artifact. `paths`: any mix of .safetensors files and model.safetensors.index.json files.
 * SMELT_io: a file cannot be read. SMELT_weights: a file is malformed, or tensors are missing, extra, doubled
 * or of another dtype or shape; the message lists them all (the first 20 in full).
 * A model compiled for i8 takes files of `smeltc weights quantize`, and f32 and bf16 ones as well.
 * When the model ties its head, a file may still hold lm_head.weight if it equals the embedding. */
smelt_status smelt_weights_open(const smelt_artifact *artifact, const char *const *paths, size_t path_count,
                                smelt_weights **weights, char **error);
void smelt_weights_close(smelt_weights *weights);
/* Bytes of all bound tensors, in the type the model has them in. */
uint64_t smelt_weights_bytes(const smelt_weights *weights);
/* How many tensors the files have in f32 or bf16 and a model compiled for i8 wants in 8 bits: the first
 * session quantises them as `smeltc weights quantize` does, with the same result. */
uint64_t smelt_weights_unquantized(const smelt_weights *weights);

/* Returns nonzero to stop. */
typedef int (*smelt_progress_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes);
/* Brings the mapped weights into memory so that the first step does not wait for the disk. Optional.
 * SMELT_interrupted: `progress` asked to stop. SMELT_io: a file was cut short meanwhile. */
smelt_status smelt_weights_preload(smelt_weights *weights, smelt_progress_fn progress, void *user,
                                   char **error);

/* ---- sessions ------------------------------------------------------------------------------------------ */

typedef struct smelt_session_options {
  uint32_t sequences;       /* independent sequences, at least 1; default 1 */
  uint32_t capacity;        /* positions of each; rounded up to a multiple of 16; default 2048 */
  uint32_t max_step_tokens; /* a longer forward is cut into steps of this many tokens; default 512 */
  uint32_t
      max_logit_rows; /* logit rows of one step; default 0: max(sequences, 16), at most max_step_tokens */
  uint32_t threads;   /* workers, the caller being one; default 0: the CPUs this process may use. When they are as
                         many as the CPUs the caller may use, a step after a pause keeps each of them, the caller
                         too, on a CPU of its own until it returns */
  const char *isa;    /* a variant of the artifact by name; default NULL: the best this machine has */
  bool profile;       /* measure every kernel */
  /* On the CPU: launches estimated to take one thread less than this run on one alone, since waking and
   * waiting would cost more than is gained; default 1500. 0: all threads share every launch. The results are
   * the same bits. */
  uint32_t min_shared_nanoseconds;
  /* Where to run: NULL or "cpu"; "cuda" or "cuda:N", GPU N of those the driver finds. A device runs the code
   * the artifact holds for it (smelt_artifact_get_device), with the weights copied to its memory. For
   * smelt_memory_needed the name of a device target is taken as well, "cuda:sm_90a"; that needs no GPU. */
  const char *device;
  /* Called while weights are packed, or copied to a device; see smelt_weights_preload. May be NULL. */
  smelt_progress_fn progress;
  void *progress_user;
  /* A file with the packed weights that CPU kernels read (docs/artifact.md): mapped when it fits, else
   * written after packing. "": a name beside the first weights file. NULL: none. Not for devices. A cache
   * that cannot be used or written is no error; `notice` says why. */
  const char *weights_cache;
  bool check_weights_cache; /* read all of it first and compare checksums, instead of its header's alone */
  /* Called with one sentence for people about something that is no error. May be NULL. */
  void (*notice)(void *user, const char *text);
  void *notice_user;
  /* What multiplies dense matrices in the steps of a device that have 32 rows or more. "own": kernels of the
   * artifact, with which a token's results do not depend on the rows of its step. "cublas": cuBLASLt.
   * NULL or "auto": cuBLASLt where there is one. docs/cuda.md says what holds with it. */
  const char *gemm;
} smelt_session_options;
void smelt_session_options_init(smelt_session_options *options);

/* Bytes a session takes, all allocated at its creation, where it runs. */
typedef struct smelt_memory {
  uint64_t workspace;      /* buffers of one step, inputs and logits included */
  uint64_t state;          /* KV cache of all sequences and executed layers */
  uint64_t tables;         /* rope tables */
  uint64_t scratch;        /* of all workers, or of the kernels of a device */
  uint64_t total;          /* of the above, and device_weights: in the memory of the device, if one runs */
  uint64_t weights;        /* mapped from their files, shared and reclaimable, so not part of the total */
  uint32_t capacity;       /* after rounding */
  uint64_t device_weights; /* weights as a device keeps them; 0 on the CPU */
  uint64_t pinned;         /* host memory that the device copies from and to; not part of the total */
  uint64_t packed_weights; /* the copy that CPU kernels read of weights with a layout of their own, shared by
                              the sessions of one smelt_weights; not part of the total */
  uint64_t packed_huge;    /* of packed_weights, what the system has put in large pages by now; 0 before */
  uint64_t peak;           /* on the CPU: the most memory a process that only runs this session holds at once,
                              docs/artifact.md says what counts. On a device: the most of its memory, total and what
                              weights pass through while they are loaded from files */
} smelt_memory;
/* SMELT_input: an option is out of range. SMELT_memory: the sizes overflow. */
smelt_status smelt_memory_needed(const smelt_artifact *artifact, const smelt_session_options *options,
                                 smelt_memory *memory, char **error);

/* SMELT_memory: more than the machine has left; the message says how much of what. SMELT_unsupported: no code
 * variant for this machine, or not the one asked for. SMELT_input: an option is out of range, or the weights
 * were bound for another artifact. */
smelt_status smelt_session_create(const smelt_artifact *artifact, const smelt_weights *weights,
                                  const smelt_session_options *options, smelt_session **session,
                                  char **error);
void smelt_session_destroy(smelt_session *session);

/* The options in force: defaults resolved, capacity rounded, isa the name of the chosen variant or device
 * target; weights_cache NULL; gemm "own" or "cublas". */
void smelt_session_get_options(const smelt_session *session, smelt_session_options *options);
void smelt_session_get_memory(const smelt_session *session, smelt_memory *memory);
/* What multiplies dense matrices in long steps on a device, for people: "own kernels", "cuBLASLt 13.1.0";
 * empty on the CPU. Valid until the next call. */
const char *smelt_session_gemm(smelt_session *session);

/* Tokens to run. Token i of sequence sequence_ids[i] goes to position positions[i], which must be that
 * sequence's next one: its length so far plus the tokens of it before i. Sequences may be mixed freely; no
 * result depends on what else is in the step or on how it is cut (on a device: apart from which of its
 * programs runs, one for short steps or one for any, and with cuBLASLt also on the number of rows). */
typedef struct smelt_step {
  const int32_t *tokens;       /* [token_count], 0..vocab_size-1 */
  size_t token_count;          /* at least 1 */
  const int32_t *positions;    /* [token_count], or NULL: the next ones */
  const int32_t *sequence_ids; /* [token_count], or NULL: all of sequence 0 */
  const int32_t *logit_rows;   /* [logit_row_count], strictly increasing indices into tokens */
  size_t logit_row_count;      /* may be 0 */
} smelt_step;

/* Runs the step; row r of `logits` (f32 [logit_row_count, vocab_size], may be NULL when there are no rows)
 * gets the logits after token logit_rows[r]. On failure no sequence has grown. SMELT_input: a token,
 * position, sequence or row is out of range; nothing has run. SMELT_interrupted: smelt_session_interrupt was
 * called. SMELT_internal: a kernel failed. */
smelt_status smelt_session_forward(smelt_session *session, const smelt_step *step, float *logits,
                                   char **error);

typedef struct smelt_sampling smelt_sampling;
/* As smelt_session_forward, but draws a token for each row of logits, where the session runs: tokens
 * [logit_row_count], row r as smelt_sample(..., streams[r], draw_step) would; streams NULL: r. The logits
 * stay where they are. Further errors: those of smelt_sample. */
smelt_status smelt_session_sample(smelt_session *session, const smelt_step *step,
                                  const smelt_sampling *sampling, const uint64_t *streams, uint64_t draw_step,
                                  int32_t *tokens, char **error);

typedef struct smelt_generation smelt_generation;
/* Continues sequences token by token: `steps` steps of one token for each, of which each runs the tokens that
 * the one before has drawn. A device goes from step to step by itself, a little ahead of what has been
 * delivered. Sequences have grown by a position for each delivered step, on failure too. Errors as for
 * smelt_session_sample; SMELT_input also: a sequence is named twice or has no room for all steps. */
smelt_status smelt_session_generate(smelt_session *session, const smelt_generation *generation, char **error);

/* Positions the sequence holds; 0 for an unknown sequence. */
uint32_t smelt_session_length(const smelt_session *session, uint32_t sequence);
/* Forgets all positions from `length` on; 0 resets. SMELT_input: unknown sequence or longer than it is. */
smelt_status smelt_session_truncate(smelt_session *session, uint32_t sequence, uint32_t length, char **error);
/* Makes the running forward, or else the next one, stop between two kernels with SMELT_interrupted. May be
 * called from any thread and from a signal handler. */
void smelt_session_interrupt(smelt_session *session);

/* ---- looking inside ------------------------------------------------------------------------------------ */

/* One buffer a kernel has just written. */
typedef struct smelt_probe {
  const char *buffer; /* name */
  const char *kernel; /* name */
  const char *role;
  uint32_t block, call; /* indices into the step program */
  int32_t visit, layer; /* of the loop; -1 outside layers */
  int64_t slot;         /* of a state buffer; -1 for others */
  smelt_dtype dtype;    /* of the buffer */
  const void *data;
  uint64_t rows;        /* tokens or logit rows of the step; 1 when the size depends on neither */
  uint64_t row_bytes;   /* bytes the kernel may write per row */
  uint64_t bytes;       /* all it may write: fixed part + rows * row_bytes */
  uint64_t first_token; /* index into smelt_step.tokens of the step's first token: a forward may be several
                           steps */
} smelt_probe;
typedef void (*smelt_probe_fn)(void *user, const smelt_probe *probe);
/* Calls `probe` after every kernel, once per buffer it wrote. NULL removes it. */
void smelt_session_set_probe(smelt_session *session, smelt_probe_fn probe, void *user);

/* What one kernel did since the session was made or smelt_session_reset_profile. */
typedef struct smelt_kernel_profile {
  const char *kernel, *role;
  uint64_t calls;
  double seconds; /* wall time of its launches, synchronisation included */
  double bytes;   /* that had to be moved at least: inputs, outputs, weights touched, cache positions read */
  double flops;   /* 0 when negligible */
} smelt_kernel_profile;
/* The index-th kernel's; false when there is none or the session does not profile. */
bool smelt_session_get_profile(const smelt_session *session, uint32_t index, smelt_kernel_profile *profile);
void smelt_session_reset_profile(smelt_session *session);

/* ---- sampling ------------------------------------------------------------------------------------------ */

struct smelt_sampling {
  double temperature; /* 0: the largest logit, ties to the lower index */
  double top_p;       /* (0, 1]: the smallest set of most likely tokens with at least this probability */
  uint64_t seed;
  uint32_t top_k; /* 0: all; else that many of the most likely tokens, before top_p */
};
void smelt_sampling_init(smelt_sampling *sampling); /* greedy, top_p 1, seed 0 */

/* Picks a token from f32 logits [vocab_size]. A pure function of its arguments, the same on every machine:
 * the random number is a hash of (seed, stream, step), so give each sequence its stream and count its steps.
 * SMELT_input: temperature or top_p out of range. SMELT_weights: a logit is NaN or infinite. */
smelt_status smelt_sample(const float *logits, uint32_t vocab_size, const smelt_sampling *sampling,
                          uint64_t stream, uint64_t step, int32_t *token, char **error);

/* Takes the tokens of one step, [sequence_count]; nonzero stops. */
typedef int (*smelt_token_fn)(void *user, const int32_t *tokens);
struct smelt_generation {
  size_t sequence_count;
  const int32_t *tokens; /* [sequence_count]: the latest token of each sequence, which it does not hold yet */
  const int32_t *sequence_ids; /* [sequence_count], all different; NULL: 0, 1, ... */
  uint32_t steps;
  smelt_sampling sampling;
  const uint64_t *streams; /* [sequence_count]; NULL: the sequence ids */
  uint64_t first_step;     /* of the draws; the next step's is one more */
  smelt_token_fn deliver;  /* may be NULL */
  void *user;
};

#ifdef __cplusplus
}
#endif

#endif /* SMELT_RUNTIME_H */
