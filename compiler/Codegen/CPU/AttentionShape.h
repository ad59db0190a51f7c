// Shape of an attention layer and of its cache, as rope_append and attention see them.
//
// The key cache is blocked by 16 positions, [S][kv_heads][C / 16][head_dim][16], so that 16 scores come from
// head_dim multiplications of full vectors whatever head_dim is; values are [S][kv_heads][C][head_dim]. Both
// hold f32 or bf16; keys of bf16 lie in pairs, [C / 16][head_dim / 2][16][2], each pair in the place of one
// f32.
#pragma once

#include "compiler/Codegen/CPU/Emitter.h"

namespace smelt::codegen::cpu {

// Positions of a panel of keys.
constexpr int64_t kPositionBlock = 16;
// Value of the parameter `kv` of a cache of bf16; docs/program.md.
constexpr int64_t kBlockedBf16 = 2;

struct AttentionShape {
  explicit AttentionShape(const KernelDesc &k)
      : query_heads(k.param("query_heads")), kv_heads(k.param("kv_heads")), head_dim(k.param("head_dim")),
        bf16(k.params.count("kv") && k.param("kv") == kBlockedBf16) {}
  int64_t group() const { return query_heads / kv_heads; } // query heads that share a kv head
  int64_t queryWidth() const { return query_heads * head_dim; }
  int64_t kvWidth() const { return kv_heads * head_dim; }
  // Floats of the partial result of a query head for a chunk of positions: weighted values, then the maximum
  // and the sum. docs/program.md sizes their buffer.
  int64_t partialFloats() const { return partialMaximum() + 16; }
  int64_t partialMaximum() const { return (head_dim + 15) / 16 * 16; }
  // Element offset of (sequence, kv head) in either cache.
  Value cacheOffset(Emitter &e, Value sequence, Value head, Value capacity) const {
    return e.mul(e.mul(e.add(e.mul(sequence, kv_heads), head), capacity), head_dim);
  }
  Type cacheElement(Emitter &e) const { return e.elementType(bf16); }
  int64_t query_heads, kv_heads, head_dim;
  bool bf16; // the cache holds bf16
};

} // namespace smelt::codegen::cpu
