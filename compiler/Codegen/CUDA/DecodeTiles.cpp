#include "compiler/Codegen/CUDA/DecodeTiles.h"

#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t LOADS = 8;      // in flight, of a lane
constexpr int64_t STRAIGHT = 16;  // iterations unrolled rather than looped over
constexpr int64_t COPY_LOADS = 4; // of a thread, before the first store
constexpr int64_t UNIT_ELEMENTS = BLOCK_ROWS * UNIT_COLUMNS;

} // namespace

TileRows::TileRows(Emitter &e, int64_t rows, int64_t columns, Value blockRow)
    : e(e), columns(paddedColumns(columns)) {
  constexpr int64_t blocks = TILE / BLOCK_ROWS; // of 8 rows in a tile
  int64_t fullTiles = this->columns / TILE, tailColumns = this->columns % TILE;
  Value tileRow = e.div(blockRow, blocks), within = e.rem(blockRow, blocks);
  Value height = e.min(e.sub(e.c(paddedRows(rows)), e.mul(tileRow, TILE)), TILE);
  tileStride = e.mul(height, TILE);
  Value base = e.add(e.mul(tileRow, TILE * this->columns), e.mul(e.lane(), 8));
  fullBase = e.add(base, e.mul(within, BLOCK_ROWS * TILE));
  tailBase = e.add(e.add(base, e.mul(tileStride, fullTiles)), e.mul(within, BLOCK_ROWS * tailColumns));
}

int64_t TileRows::units() const { return (columns + UNIT_COLUMNS - 1) / UNIT_COLUMNS; }

// In elements. `full`: the unit is known to lie in a tile of 64 columns.
Value TileRows::unitOffset(Value unit, bool full) {
  constexpr int64_t perTile = TILE / UNIT_COLUMNS;
  int64_t fullUnits = columns / TILE * perTile;
  Value inFull = e.add(
      fullBase, e.add(e.mul(e.div(unit, perTile), tileStride), e.mul(e.rem(unit, perTile), UNIT_ELEMENTS)));
  if (full) {
    return inFull;
  }
  Value inTail = e.add(tailBase, e.mul(e.sub(unit, fullUnits), UNIT_ELEMENTS));
  return e.select(e.less(unit, fullUnits), inFull, inTail);
}

Values TileRows::load(ValueRange matrices, Value unit, bool full) {
  Value offset = unitOffset(unit, full), predicate;
  if (!full) {
    Value column = e.add(e.mul(unit, UNIT_COLUMNS), e.mul(e.div(e.lane(), BLOCK_ROWS), 8));
    predicate = e.less(column, columns);
  }
  Values words;
  for (Value matrix : matrices) {
    Value address = e.at(matrix, e.bf16(), offset);
    words.append(full ? e.stream(address) : e.streamIf(predicate, address));
  }
  return words;
}

void TileRows::accumulate(Value activations, Value unit, ValueRange words, Values &sums) {
  Type quad = e.vec(e.f32(), 4);
  Value column = e.add(e.mul(unit, UNIT_COLUMNS), e.mul(e.div(e.lane(), BLOCK_ROWS), 8));
  Value address = e.at(activations, e.f32(), column);
  for (int64_t half = 0; half < 2; ++half) {
    Value x = e.load(quad, e.at(address, e.f32(), 4 * half), 16);
    for (int64_t i = 0; i < 4; ++i) {
      for (size_t m = 0; m < sums.size(); ++m) {
        Value word = words[4 * m + 2 * half + i / 2];
        sums[m] = e.fma(i % 2 ? e.high(word) : e.low(word), e.element(x, i), sums[m]);
      }
    }
  }
}

Values TileRows::multiply(ValueRange matrices, Value activations, Value first, int64_t stride,
                          const std::function<void()> &afterPrefetch) {
  int64_t fullUnits = columns / TILE * (TILE / UNIT_COLUMNS);
  int64_t iterations = (units() + stride - 1) / stride;
  int64_t depth = std::min(std::max<int64_t>(1, LOADS / static_cast<int64_t>(matrices.size())), iterations);
  // Iterations in which every warp's unit lies in a full tile.
  int64_t full = fullUnits / stride;
  int64_t words = 4 * static_cast<int64_t>(matrices.size());
  auto unitOf = [&](Value iteration) { return e.add(first, e.mul(iteration, stride)); };

  Values ring;
  for (int64_t i = 0; i < depth; ++i) {
    ring.append(load(matrices, unitOf(e.c(i)), i < full));
  }
  afterPrefetch();
  Values sums(matrices.size(), e.f(0));
  auto use = [&](int64_t slot, Value iteration, const std::function<Values()> &next) {
    Values current(ring.begin() + slot * words, ring.begin() + (slot + 1) * words);
    if (next) {
      Values loaded = next();
      std::copy(loaded.begin(), loaded.end(), ring.begin() + slot * words);
    }
    accumulate(activations, unitOf(iteration), current, sums);
  };

  int64_t done = 0;
  if (iterations > STRAIGHT && full > depth) {
    done = (full - depth) / depth * depth;
    Values carried(sums);
    carried.append(ring);
    auto unpack = [&](ValueRange values) {
      sums.assign(values.begin(), values.begin() + sums.size());
      ring.assign(values.begin() + sums.size(), values.end());
    };
    Values after = e.loop(e.c(0), e.c(done), e.c(depth), carried, [&](Value begin, ValueRange in) {
      unpack(in);
      for (int64_t j = 0; j < depth; ++j) {
        use(j, e.add(begin, j), [&] { return load(matrices, unitOf(e.add(begin, j + depth)), true); });
      }
      Values out(sums);
      out.append(ring);
      return out;
    });
    unpack(after);
  }
  for (int64_t i = done; i < iterations; ++i) {
    int64_t next = i + depth;
    std::function<Values()> reload;
    if (next < iterations) {
      reload = [&] { return load(matrices, unitOf(e.c(next)), next < full); };
    }
    if (stride * (i + 1) <= units()) {
      use(i % depth, e.c(i), reload);
    } else {
      // Some warps have no unit left: their words are zero, and the activations must not be read.
      Values before(sums), current(ring.begin() + i % depth * words, ring.begin() + (i % depth + 1) * words);
      sums = e.choose(
          e.less(unitOf(e.c(i)), units()),
          [&] {
            Values inner(before);
            accumulate(activations, unitOf(e.c(i)), current, inner);
            return inner;
          },
          [&] { return before; });
    }
  }
  return sums;
}

RowCopy::RowCopy(Emitter &e, Value from, Value to, int64_t columns, int64_t padded, Value thread,
                 int64_t threads)
    : e(e), from(from), to(to), thread(thread), columns(columns), padded(padded), threads(threads),
      width(columns % 4 == 0 ? 4 : 1) {
  for (int64_t begin = 0; begin < padded / width && loaded.size() < COPY_LOADS; begin += threads) {
    loaded.push_back(load(e.add(thread, begin)));
  }
}

Value RowCopy::load(Value item) {
  Value column = e.min(e.mul(item, width), columns - width);
  return e.loadReadOnly(width == 4 ? e.vec(e.f32(), 4) : e.f32(), e.at(from, e.f32(), column), 4 * width);
}

void RowCopy::store(Value item, Value value) {
  Value column = e.mul(item, width), valid = e.less(column, columns);
  Values elements;
  for (int64_t i = 0; i < width; ++i) {
    elements.push_back(e.select(valid, width == 4 ? e.element(value, i) : value, e.f(0)));
  }
  e.when(e.less(column, padded), [&] {
    e.store(width == 4 ? e.vectorOf(elements) : elements[0], e.at(to, e.f32(), column), 4 * width);
  });
}

void RowCopy::finish() {
  int64_t next = 0;
  for (Value value : loaded) {
    store(e.add(thread, next), value);
    next += threads;
  }
  if (next < padded / width) {
    e.loop(e.add(thread, next), e.c(padded / width), threads, [&](Value item) { store(item, load(item)); });
  }
}

} // namespace smelt::codegen::cuda
