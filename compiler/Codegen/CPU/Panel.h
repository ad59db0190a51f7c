// The matrix product every linear kernel is built on: a panel of activation rows in scratch, times a block of
// weight rows where the weights file has them.
//
// A weight matrix is [columns of the result, K], so one result column is one contiguous weight row: a vector
// of K is multiplied into a vector accumulator, and the accumulator's lanes are added at the end. Each weight
// byte is read once per row block, nothing is repacked, and the order of additions of one result element
// depends on K and the ISA alone: neither on the number of rows nor on how work was shared.
#pragma once

#include "compiler/Codegen/CPU/Emitter.h"

#include <optional>

namespace smelt::codegen::cpu {

// Compile-time shape of a panel product: rows (at most rowBlock) x K, times columns x K.
class Panel {
public:
  Panel(Emitter &e, int64_t k, WeightType weights);

  int64_t rowBlock() const { return row_block; } // rows a panel holds
  int64_t bytes() const;                         // of scratch the panel takes, a multiple of 64
  int64_t k() const { return depth; }

  // Rows of activations at `source` (f32, one row of K every `stride` elements), copied and rounded to the
  // panel's element type. `rowIndex` maps a panel row to a source row (default: itself).
  using RowIndex = std::function<Value(Value row)>;
  void copyRows(Value panel, Value rows, Value source, Value stride, const RowIndex &rowIndex);

  // The same with RMSNorm: x * w / sqrt(mean(x^2) + eps); `emit`, when given, also receives each f32 row at
  // the returned address.
  struct Norm {
    Value weight;
    Value eps;
    std::function<Value(Value row)> emit; // may be empty
  };
  void normRows(Value panel, Value rows, Value source, Value stride, const RowIndex &rowIndex,
                const Norm &norm);

  // result[row * ldResult + column] = panel row . weight row, for `rows` rows and `columns` columns
  // (columns >= min(total, kColumnGroup) where total is the compile-time number of result columns).
  void multiply(Value panel, Value rows, Value weights, Value columns, int64_t total, Value result,
                int64_t ldResult);

private:
  void tile(Value panelRow, Value weightRow, Value result, int64_t rows, int64_t columns, int64_t ldResult);
  Values step(llvm::ArrayRef<Value> a, llvm::ArrayRef<Value> w, mlir::ValueRange acc);
  void storePanelVector(Value value, Value panelRow, Value begin, int64_t length);

  Emitter &e;
  int64_t depth; // K
  WeightType weights;
  bool dot_bf16;  // panel holds bf16 for VDPBF16PS
  int64_t chunk;  // elements of K one accumulator step takes
  int64_t padded; // K rounded up to chunk
  int64_t row_block;
};

} // namespace smelt::codegen::cpu
