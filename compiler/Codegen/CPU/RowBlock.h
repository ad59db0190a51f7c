// The activation rows a worker multiplies: copied into its scratch, gathered, normalised and rounded to what
// the product multiplies.
#pragma once

#include "compiler/Codegen/CPU/Emitter.h"

namespace smelt::codegen::cpu {

class RowBlock {
public:
  // Rows of `k` elements that meet weights of the given type.
  RowBlock(Emitter &e, int64_t k, WeightType weights);

  int64_t capacity() const { return rows; } // rows it holds
  int64_t bytes() const;                    // of scratch it takes, a multiple of 64
  int64_t stride() const { return padded; } // elements from one row to the next; those past k are zero
  bool holdsBf16() const { return dot_bf16; }
  Type element() { return dot_bf16 ? e.bf16() : e.f32(); }
  Value row(Value block, Value index) { return e.at(block, element(), e.mul(index, padded)); }

  // Rows of activations at `source` (f32, one row of k every `stride` elements). `rowIndex` maps a row of the
  // block to a source row.
  using RowIndex = std::function<Value(Value row)>;
  void copyRows(Value block, Value rows, Value source, Value stride, const RowIndex &rowIndex);

  // The same with RMSNorm: x * w / sqrt(mean(x^2) + eps); `emit`, when given, also receives each f32 row at
  // the returned address.
  struct Norm {
    Value weight;
    WeightType type;
    Value eps;
    std::function<Value(Value row)> emit; // may be empty
  };
  void normRows(Value block, Value rows, Value source, Value stride, const RowIndex &rowIndex,
                const Norm &norm);

private:
  void storeVector(Value value, Value row, Value begin);
  void zeroTail(Value row);

  Emitter &e;
  int64_t depth; // k
  bool dot_bf16; // rows hold bf16 for VDPBF16PS
  int64_t padded;
  int64_t rows;
};

} // namespace smelt::codegen::cpu
