// The activation rows a worker multiplies: copied into its scratch, gathered, normalised and rounded to what
// the product multiplies: f32, bf16 for VDPBF16PS, or for 8-bit weights integers of 16 bits.
//
// Integers: a row is q * 2^e with one exponent, the smallest for which |q| < 2^15. Rounding to nearest moves
// no element by more than 2^-15 of the row's largest; products with codes of 8 bits then are sums of
// integers, exact in any order. A row with an infinity or a NaN gives NaN. Rows smaller than 2^-100 lose
// bits, as if that were their largest element.
#pragma once

#include "compiler/Codegen/CPU/Emitter.h"

namespace smelt::codegen::cpu {

// Where rows come from: any that are asked for, or those of a matrix in memory one after the other.
enum class RowSource { gathered, matrix };

class RowBlock {
public:
  // Rows of `k` elements that meet weights of the given type.
  RowBlock(Emitter &e, int64_t k, WeightType weights, RowSource source = RowSource::gathered);

  int64_t capacity() const { return rows; } // rows it holds
  int64_t bytes() const;                    // of scratch it takes, a multiple of 64
  int64_t stride() const { return padded; } // elements from one row to the next; those past k are zero
  // Whether a matrix's rows are multiplied where they are, unchanged: nothing is copied.
  bool inPlace() const { return in_place; }
  bool holdsBf16() const { return form == Form::bf16; }
  Type element() { return holdsBf16() ? e.bf16() : e.f32(); } // of integers: two
  Value row(Value block, Value index) { return e.at(block, element(), e.mul(index, padded)); }

  // Of a row of integers, as 32-bit words: in each kQuantBlock of k, for every four k the pair of integers
  // (0, 2), then (1, 3); by block -128 times the sum of its integers, which corrects for codes that are
  // stored with 128 added; the factor 2^e as f32.
  Value pair(Value row, Value block, Value group, int64_t odd) const;
  Value correction(Value row, Value block) const;
  Value factor(Value row) const;

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
  enum class Form { f32, bf16, integers };
  // Where a row's values are stored one by one: in the row, or beside the block until all are known.
  Value target(Value block, Value index);
  void storeVector(Value value, Value target, Value begin);
  void finishRow(Value block, Value index);
  Value largest(Value values);
  void roundRow(Value values, Value row);
  int64_t quantBlocks() const;
  int64_t rowWords() const; // of f32 values, or of what stands for them

  Emitter &e;
  int64_t depth; // k
  Form form;
  bool in_place = false;
  int64_t padded;
  int64_t rows;
};

} // namespace smelt::codegen::cpu
