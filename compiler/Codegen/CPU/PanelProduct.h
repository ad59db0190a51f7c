// A block of activation rows times packed weights, in tiles that live in registers.
//
// A matrix [N][K] is packed into N/16 panels of 16 result columns, the last one padded with zeros, each with
// its 16 values of one k side by side: f32 [K][16], bf16 [ceil(K/2)][16][2], pairs along k, i8 as QuantPanels
// reads it. A tile multiplies a few rows with a few panels: one register per row and vector of columns, to
// which the products are added for k = 0, 1, 2 ... A result element is therefore the same sum in the same
// order in a tile of any shape, so it depends neither on the number of rows nor on how work was shared.
#pragma once

#include "compiler/Codegen/CPU/QuantPanels.h"
#include "compiler/Codegen/CPU/RowBlock.h"

namespace smelt::codegen::cpu {

// Result columns of a panel: weight layout panel16.
inline constexpr int64_t kPanelColumns = 16;
int64_t panelCount(int64_t columns);

// The panels of one or more matrices of equal size, shared out in units that workers claim.
struct PanelUnits {
  // `matrices` are multiplied together (gate and up).
  PanelUnits(int64_t columns, int64_t matrices);
  Value first(Emitter &e, Value unit) const; // panel
  Value panels(Emitter &e, Value unit) const;

  int64_t count;

private:
  int64_t total;   // panels
  int64_t granule; // units are multiples of it, but for the last
  int64_t granules;
};

class PanelProduct {
public:
  // Rows of `k` elements times `matrices` matrices of equal size.
  PanelProduct(Emitter &e, const RowBlock &rows, int64_t k, WeightType weights, int64_t matrices,
               RowCounts counts = RowCounts::usuallyMany);

  int64_t panelBytes() const; // of one panel of weights
  Value panel(Value matrix, Value index) {
    return e.at(matrix, e.builder.getI8Type(), e.mul(index, panelBytes()));
  }
  int64_t scratchBytes() const;

  // 16 columns of one row of every matrix. `columns` of them exist (at most 16, maybe none), or all when it
  // is null.
  struct Result {
    Value row;    // of the block
    Value column; // the first one
    Value columns;
    llvm::SmallVector<Values, 2> sums; // by matrix: vectors of e.lanes() columns
  };
  using Epilogue = std::function<void(const Result &)>;

  // What is multiplied: `panels` panels from `first` on of matrices with `columns` columns.
  struct Operands {
    Value block, rows; // see RowBlock
    Values matrices;   // addresses
    Value first, panels;
    Value columns;
    Values following; // by matrix: address of the panel this worker multiplies after the last of these
  };
  void run(const Operands &operands, Value scratch, const Epilogue &epilogue);

private:
  // Weights to bring in while a tile is multiplied. Tiles above each other share out the panels that come
  // next: of each matrix `pace` bytes for every step of k, into the L2 cache. A tile that is alone with its
  // panels has no pace: it reads them a little ahead into the L1 cache, and at the end of them the next
  // tile's, which start at the addresses.
  struct ReadAhead {
    Values addresses; // by matrix
    Value pace;
    Value period; // steps from one line to the next
  };
  Values panelsAfter(const Operands &operands, Value next);
  void tile(const Operands &operands, Value scratch, Value row, Value panel, const RegisterTile &shape,
            const ReadAhead &ahead, const Epilogue &epilogue);
  // The products: by row, then panel pointer, then vector.
  Values accumulate(Value rowAddress, int64_t rows, llvm::ArrayRef<Value> panels, const ReadAhead &ahead);
  Values accumulateShared(Value rowAddress, int64_t rows, llvm::ArrayRef<Value> panels,
                          const ReadAhead &ahead);
  Values accumulateAlone(Value rowAddress, int64_t rows, llvm::ArrayRef<Value> panels,
                         llvm::ArrayRef<Value> following);
  // Brings in so many bytes of each address from where `step` of a tile with a pace begins to.
  void readAhead(const ReadAhead &ahead, Value step, Value bytes);
  Values multiplySteps(Value rowAddress, int64_t rows, llvm::ArrayRef<Value> panels, Value begin, Value end,
                       llvm::ArrayRef<Value> read, mlir::ValueRange init);
  void step(Value rowAddress, int64_t rows, llvm::ArrayRef<Value> panels, Value k, Values &sums);
  Values weightVectors(Value address);
  Values broadcast(Value rowAddress, Value k);
  Value multiplyAdd(Value a, Value w, Value sum);
  Values zeros(size_t vectors) { return Values(vectors, e.splat(0.0, e.lanes())); }
  int64_t steps() const { return (depth + k_step - 1) / k_step; }
  int64_t vectors() const { return kPanelColumns / e.lanes(); } // of a panel

  Emitter &e;
  const RowBlock &rows;
  int64_t depth; // k
  WeightType weights;
  int64_t matrices;
  llvm::ArrayRef<RegisterTile> shapes; // of tiles, the last of one row
  int64_t k_step;                      // k of one step: of 16 x 4 bytes of weights, or a block of i8
};

// silu(gate) * up, the sums of two matrices, into the result's columns of the row at `h`.
void storeSwiglu(Emitter &e, const PanelProduct::Result &result, Value h);

// Loads and stores of a Result's columns; vectors are those of its sums.
Value loadColumns(Emitter &e, const PanelProduct::Result &result, int64_t vector, Value address);
void storeColumns(Emitter &e, const PanelProduct::Result &result, int64_t vector, Value value, Value address);

} // namespace smelt::codegen::cpu
