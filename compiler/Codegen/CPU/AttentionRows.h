// Attention of query rows that share a sequence and a kv head, chunk by chunk of the cache.
//
// What a row computes, wherever it is computed: positions are cut into chunks at multiples of kChunk. Of
// chunk c, with scores s_j = (q log2(e) / sqrt(head_dim)) . k_j of the positions the row may see,
//
//   m_c = max_j s_j    l_c = sum_j 2^(s_j - m_c)    a_c = sum_j 2^(s_j - m_c) v_j
//
// and the chunks are folded in their order into M = -FLT_MAX, L = 0, A = 0 by
//
//   M' = max(M, m_c)   L' = L 2^(M - M') + l_c 2^(m_c - M')   A' = A 2^(M - M') + a_c 2^(m_c - M').
//
// The result is A / L. Folding a single chunk gives exactly (m_c, l_c, a_c), so chunks may be computed apart
// and folded later. The order of every sum is fixed by positions alone.
#pragma once

#include "compiler/Codegen/CPU/AttentionProducts.h"

namespace smelt::codegen::cpu {

class AttentionRows {
public:
  // Rows are `mostTokens` tokens at most, with the query heads of one kv head each.
  AttentionRows(Emitter &e, const AttentionShape &shape, int64_t mostTokens, Value scratch);

  int64_t scratchBytes() const { return 4 * floatsTaken; }

  // Copies the query rows of `tokens` tokens; those of a token lie together at `queries`, each token
  // queryWidth after the one before it. Nothing has been folded then.
  void begin(Value queries, Value tokens);

  // Folds a chunk, whose keys and values begin at `keys` and `values`. The first token may see its first
  // `visible` positions, at least one, and each further token one more; `panels` hold all that any may see.
  void foldChunk(Value keys, Value values, Value visible, Value panels);

  // Stores what has been folded, the state of each token's first row at `partials` and `tokenStride` floats
  // behind the token before it; rows of a token follow each other.
  void storePartials(Value partials, Value tokenStride);

  // The result of one query head from its partials of `chunks` chunks, `stride` floats apart.
  void foldPartials(Value partials, Value stride, Value chunks, Value out);

  // Stores the results where `out` has the rows that `queries` had.
  void finish(Value out);

private:
  Value visibleTo(Value row, Value visible);
  Value accumulator(Value row, Value vector);
  Values stepAddresses(Value row, Value step);
  Value combineAll(Values parts, const std::function<Value(Value, Value)> &combine);
  void findMaximum(Value row, Value visible);
  void exponentiate(Value row, Value visible);
  struct Folded {
    Value maximum, sum, keep, add; // M', L', 2^(M - M'), 2^(m_c - M')
  };
  Folded fold(Value before, Value highest, Value sum, Value chunkSum);
  void foldStates();
  void storeResult(Value out, Value sum, const std::function<Value(int64_t vector)> &accumulated);

  Emitter &e;
  const AttentionShape &shape;
  int64_t group, mostRows, floatsTaken = 0;
  AttentionProducts products;
  // Scratch. By row, one f32 each: M and L, m_c and l_c, 2^(M - M') and 2^(m_c - M').
  Value queries, scores, maxima, sums, chunkMaxima, chunkSums, keeps, adds, accumulators;
  Value rows, tokens; // of the current run
};

} // namespace smelt::codegen::cpu
