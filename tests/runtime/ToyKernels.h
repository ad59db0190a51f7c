/* Kernels of a toy model, all in one section without outside references, so that the section's bytes are the
 * machine code of an artifact. */
#ifndef SMELT_TESTS_TOY_KERNELS_H
#define SMELT_TESTS_TOY_KERNELS_H

#include "smelt/artifact.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tokens are claimed through the ticket. Constants hold T (or R), then what each kernel says. */

/* token_ids, embedding [V,H], x [T,H]; constants T, H. x = embedding[token] */
int32_t toy_embed(const smelt_kernel_args *args, int32_t worker, int32_t workers);
/* x, positions, sequence_ids, state [S,C,H]; constants T, H, C. state[sequence][position] = x */
int32_t toy_append(const smelt_kernel_args *args, int32_t worker, int32_t workers);
/* x, positions, sequence_ids, state, scale [H]; constants T, H, C, float a, float b.
 * x = a * scale * x + b * (sum of the sequence's state up to the token, in order) */
int32_t toy_mix(const smelt_kernel_args *args, int32_t worker, int32_t workers);
/* x, token_ids, table of E tensors [H]; constants T, H, E. x += table[token % E] */
int32_t toy_experts(const smelt_kernel_args *args, int32_t worker, int32_t workers);
/* x, logit_rows, embedding, logits [R,V]; constants R, H, V. logits = embedding x */
int32_t toy_head(const smelt_kernel_args *args, int32_t worker, int32_t workers);
/* Returns 42 and touches nothing. */
int32_t toy_fail(const smelt_kernel_args *args, int32_t worker, int32_t workers);
/* scratch: every worker fills its part with its number, then checks it; constants bytes. Returns 1 if
 * disturbed. */
int32_t toy_scratch(const smelt_kernel_args *args, int32_t worker, int32_t workers);

extern const char __start_toy_kernels[], __stop_toy_kernels[];

#ifdef __cplusplus
}
#endif

#endif
