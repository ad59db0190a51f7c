// The matrix product every linear kernel is built on, whatever the type of the weights.
#pragma once

#include "compiler/Codegen/CPU/QuantProduct.h"

namespace smelt::codegen::cpu {

class MatrixProduct {
public:
  using Operands = PanelProduct::Operands;
  using Result = PanelProduct::Result;
  using Epilogue = PanelProduct::Epilogue;

  // Rows of `k` elements times `matrices` matrices of equal size.
  MatrixProduct(Emitter &e, const RowBlock &rows, int64_t k, WeightType weights, int64_t matrices,
                RowCounts counts = RowCounts::usuallyMany)
      : quantized(weights == WeightType::i8),
        panels(e, rows, k, weights, matrices, e.isa.weightTiles(weights, counts)),
        quant(e, rows, k, matrices) {}

  Value panel(Value matrix, Value index) { return panels.panel(matrix, index); }
  int64_t scratchBytes() const { return quantized ? quant.scratchBytes() : panels.scratchBytes(); }
  void run(const Operands &operands, Value scratch, const Epilogue &epilogue) {
    quantized ? quant.run(operands, scratch, epilogue) : panels.run(operands, scratch, epilogue);
  }

private:
  bool quantized;
  PanelProduct panels;
  QuantProduct quant;
};

} // namespace smelt::codegen::cpu
