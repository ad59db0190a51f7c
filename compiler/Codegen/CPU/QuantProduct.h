// A block of activation rows times packed 8-bit weights.
//
// For few rows the weights are decoded in registers (PanelProduct). For more, a few panels at a time are
// decoded into scratch memory that stays in the caches, and multiplied there as f32 panels are: the tiles of
// all rows then share one decoding. Both add the same products in the same order.
#pragma once

#include "compiler/Codegen/CPU/PanelProduct.h"

namespace smelt::codegen::cpu {

class QuantProduct {
public:
  QuantProduct(Emitter &e, const RowBlock &rows, int64_t k, int64_t matrices);

  int64_t scratchBytes() const;
  void run(const PanelProduct::Operands &operands, Value scratch, const PanelProduct::Epilogue &epilogue);

private:
  // A part of k whose weights are decoded together: blocks of kQuantBlock, all whole but the last of all.
  struct Chunk {
    Value block;    // the first one
    int64_t blocks; // how many
    bool last;
  };
  int64_t chunkDepth(const Chunk &chunk) const; // k, padding included
  void runDecoded(const PanelProduct::Operands &operands, Value scratch,
                  const PanelProduct::Epilogue &epilogue);
  void multiplyChunk(const PanelProduct::Operands &operands, const Chunk &chunk, Value scratch,
                     const PanelProduct::Epilogue &epilogue);
  void decode(const PanelProduct::Operands &operands, const Chunk &chunk, Value decoded);
  void clearSums(Value rowCount, Value sums);
  // Of one vector; columns count from the first decoded panel.
  Value sumAddress(Value sums, int64_t matrix, Value row, Value column);
  int64_t decodedPanels() const; // of each matrix
  int64_t decodedBytes() const;  // of all matrices
  int64_t sumBytes() const;      // of sums that go from chunk to chunk
  int64_t blocks() const { return (depth + kQuantBlock - 1) / kQuantBlock; }

  Emitter &e;
  const RowBlock &rows;
  int64_t depth; // k
  int64_t matrices;
  QuantPanels panels;
  PanelProduct direct;
  int64_t chunks, chunk_blocks; // of k
};

} // namespace smelt::codegen::cpu
