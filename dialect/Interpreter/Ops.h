// The meaning of each computing op of the smelt dialect, as one function of tensors; docs/dialect.md has the
// formulas. Written for reading; a row of a result never depends on how many rows there are.
//
// T is the number of tokens, k of experts chosen for each, E of all experts.
#pragma once

#include "dialect/Interpreter/Tensor.h"

#include <functional>
#include <vector>

namespace mlir::smelt::interpreter {

// tokens [T] and weight [V][N] give [T][N]. The caller has checked the ids.
Tensor evalEmbed(const Tensor &tokens, const Tensor &weight);

// input [T][N] and weight [N / heads] give [T][N].
Tensor evalRmsNorm(const Tensor &input, const Tensor &weight, double eps, int64_t heads);

// input [T][I], weight [O][I] and bias [O] or null give [T][O].
Tensor evalLinear(const Tensor &input, const Tensor &weight, const Tensor *bias);

// Rotates [T][heads * d]; row t is at position t.
Tensor evalRope(const Tensor &input, int64_t heads, double theta);

struct AttentionShape {
  int64_t queryHeads, kvHeads, headDim;
};

// query [T][queryHeads * headDim], key and value [T][kvHeads * headDim] give a tensor like query.
// What a cache of bf16 keeps of keys and values: the nearest, ties to even.
void roundToBf16(Tensor &tensor);
Tensor evalAttention(const Tensor &query, const Tensor &key, const Tensor &value,
                     const AttentionShape &shape);

// The topK experts with the highest of these logits, by descending logit, ties to the lower index.
std::vector<int64_t> topExperts(const double *logits, int64_t experts, int64_t topK);

// The weights of chosen experts, from logits [T][E] and indices [T][k]: [T][k].
Tensor evalRouteWeights(const Tensor &logits, const Tensor &indices, bool sigmoid, bool renormalize);

// input [T][I] or [T][k][I] and indices [T][k] give [T][k][outWidth]. readExpert(e) is the matrix
// [outWidth][I] of expert e; it is asked once for each expert that a token chose.
Tensor evalExpertLinear(const Tensor &input, const Tensor &indices, int64_t outWidth,
                        const std::function<Tensor(int64_t)> &readExpert);

// silu(gate) * up, of any shape.
Tensor evalSwiglu(const Tensor &gate, const Tensor &up);

// rows [T][k][N] and weights [T][k] give [T][N].
Tensor evalCombine(const Tensor &rows, const Tensor &weights);

// input + scale * update.
Tensor evalResidualAdd(const Tensor &input, const Tensor &update, double scale);

Tensor evalAdd(const Tensor &lhs, const Tensor &rhs);

} // namespace mlir::smelt::interpreter
