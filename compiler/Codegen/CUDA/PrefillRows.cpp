#include "compiler/Codegen/CUDA/PrefillRows.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace smelt::codegen::cuda {

int64_t RowFormat::partBytes() const { return 2 * paddedColumns(width); }

RowThreads::RowThreads(int64_t width) {
  // A thread keeps its share of the row in registers: at most 16 vectors.
  int64_t vectors = width / rowVector(width);
  perRow = vectors <= 128 ? 32 : vectors <= 2048 ? 128 : 512;
  block = perRow < 128 ? 128 : perRow;
}

namespace {

// The values of one row that a thread holds: vector i is at columns (i * perRow + thread) * lanes.
class RowPiece {
public:
  RowPiece(Emitter &e, const RowFormat &format, const RowThreads &threads, Value thread)
      : e(e), width(format.width), lanes(rowVector(width)), perRow(threads.perRow), thread(thread) {}

  int64_t count() const { return (width + lanes * perRow - 1) / (lanes * perRow); }
  Value column(int64_t i) const { return e.add(e.mul(thread, lanes), i * perRow * lanes); }
  // Null when the vector is in the row for every thread.
  Value valid(int64_t i) const {
    return (i + 1) * perRow * lanes <= width ? Value() : e.less(column(i), width);
  }
  Value load(Value row, Type element, int64_t i) const {
    Value at = column(i), inside = valid(i);
    if (inside) {
      at = e.select(inside, at, e.c(0));
    }
    int64_t size = element == e.bf16() ? 2 : 4;
    Value loaded = e.loadReadOnly(vectorType(e, element, lanes), e.at(row, element, at), lanes * size);
    return element == e.bf16() ? bf16ToF32(e, loaded) : loaded;
  }
  void store(Value vector, Value row, int64_t i) const {
    Type element = getElementTypeOrSelf(vector.getType());
    auto write = [&] {
      e.store(vector, e.at(row, element, column(i)), lanes * (element == e.bf16() ? 2 : 4));
    };
    if (Value inside = valid(i)) {
      e.when(inside, write);
    } else {
      write();
    }
  }

  Emitter &e;
  int64_t width, lanes, perRow;
  Value thread;
};

} // namespace

void emitRows(Emitter &e, const RowFormat &format, const RowSource &source, Value firstRow, Value shared) {
  RowThreads threads(format.width);
  ThreadPlace place(e);
  bool single = threads.rows() == 1;
  Value row = single ? firstRow : e.add(firstRow, e.div(place.thread, threads.perRow));
  Value present = e.less(row, source.count);
  // Rows past the end repeat the last one and store nothing: shuffles and barriers need every thread.
  Value safe = e.min(row, e.sub(source.count, 1));
  Value from = source.gather ? e.loadI32(source.gather, safe) : safe;
  Value x = e.at(source.x, e.f32(), wideMul(e, from, format.width));
  RowPiece piece(e, format, threads, single ? place.thread : place.lane);
  Values values;
  for (int64_t i = 0; i < piece.count(); ++i) {
    values.push_back(piece.load(x, e.f32(), i));
  }
  if (source.norm) {
    Value squares = e.f(0.0);
    for (int64_t i = 0; i < piece.count(); ++i) {
      Value sum = e.f(0.0);
      for (int64_t lane = 0; lane < piece.lanes; ++lane) {
        Value v = cuda::lane(e, values[i], lane);
        sum = e.fma(v, v, sum);
      }
      Value inside = piece.valid(i);
      squares = e.addf(squares, inside ? e.select(inside, sum, e.f(0.0)) : sum);
    }
    Value mean = e.mulf(blockSum(e, place, squares, threads.perRow, shared),
                        e.f(1.0 / static_cast<double>(format.width)));
    Value factor = e.rsqrt(e.addf(mean, source.epsilon));
    for (int64_t i = 0; i < piece.count(); ++i) {
      Value weight = piece.load(source.norm, e.bf16(), i);
      values[i] = e.mulf(e.mulf(values[i], splat(e, factor, piece.lanes)), weight);
    }
  }
  e.when(present, [&] {
    if (source.emit) {
      Value emitted = e.at(source.emit, e.f32(), wideMul(e, row, format.width));
      for (int64_t i = 0; i < piece.count(); ++i) {
        piece.store(values[i], emitted, i);
      }
    }
    Value target = bytes(e, source.target, wideMul(e, row, format.rowBytes()));
    int64_t padded = paddedColumns(format.width), padding = padded - format.width;
    for (int64_t part = 0; part < format.parts; ++part) {
      Value to = bytes(e, target, part * format.partBytes());
      for (int64_t i = 0; i < piece.count(); ++i) {
        Value rounded = f32ToBf16(e, values[i]);
        piece.store(rounded, to, i);
        if (part + 1 < format.parts) {
          values[i] = e.subf(values[i], bf16ToF32(e, rounded));
        }
      }
      if (padding) {
        e.when(e.less(piece.thread, padding), [&] {
          Value zero = e.toBf16(e.f(0.0));
          e.store(zero, e.at(to, e.bf16(), e.add(piece.thread, format.width)), 2);
        });
      }
    }
  });
}

} // namespace smelt::codegen::cuda
