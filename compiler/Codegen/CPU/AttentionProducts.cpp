#include "compiler/Codegen/CPU/AttentionProducts.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// Streams a tile reads at once, at most.
constexpr int64_t kMostStreams = 8;
// Tiles of fewer rows than this wait for memory rather than for the multiplier, and read ahead.
constexpr int64_t kFewestRowsInCache = 10;
// How far ahead of what is being multiplied values are read.
constexpr int64_t kReadAheadBytes = 4096;
constexpr int64_t kLineBytes = 64;

// Tile heights, descending, that a greedy cover of any multiple of `group` up to `mostRows` uses.
std::vector<int64_t> tileHeights(const IsaLevel &isa, int64_t group, int64_t mostRows) {
  std::set<int64_t, std::greater<>> candidates = {1}, used;
  for (const RegisterTile &tile : isa.tiles) {
    candidates.insert(tile.rows);
  }
  // The rows of one token, so that decoding reads the cache once.
  if (group <= isa.tiles.front().rows) {
    candidates.insert(group);
  }
  for (int64_t rows = group; rows <= mostRows; rows += group) {
    int64_t left = rows;
    for (int64_t height : candidates) {
      if (left >= height) {
        used.insert(height);
        left %= height;
      }
    }
  }
  return {used.begin(), used.end()};
}

int64_t powerOfTwoBelow(int64_t n) {
  int64_t power = 1;
  while (2 * power <= n) {
    power *= 2;
  }
  return power;
}

} // namespace

AttentionProducts::AttentionProducts(Emitter &e, const AttentionShape &shape, int64_t mostRows)
    : e(e), d(shape.head_dim), group(shape.group()), bf16(shape.bf16) {
  int64_t perPanel = kPositionBlock / e.lanes();
  const RegisterTile &largest = e.isa.tiles.front();
  int64_t accumulators = largest.rows * largest.panels * perPanel;
  for (int64_t rows : tileHeights(e.isa, group, mostRows)) {
    int64_t width = std::clamp<int64_t>(accumulators / rows, 1, kMostStreams);
    // A power of two, so that tiles fill a chunk and no score falls outside its row.
    tiles.push_back(
        {rows, powerOfTwoBelow(std::max<int64_t>(1, width / perPanel)), std::min(width, dimVectors())});
  }
}

void AttentionProducts::overRowTiles(Value rows,
                                     const std::function<void(Value, Value, const Tile &)> &body) {
  Value row = e.c(0);
  for (const Tile &tile : tiles) {
    Value end = e.sub(rows, e.rem(e.sub(rows, row), tile.rows));
    e.when(e.less(row, end), [&] { body(row, end, tile); });
    row = end;
  }
}

void AttentionProducts::scores(Value queries, Value rows, Value keys, Value panels, Value scores) {
  overRowTiles(rows, [&](Value begin, Value end, const Tile &tile) {
    e.loop(e.c(0), panels, tile.panels, [&](Value panel) {
      e.loop(begin, end, tile.rows,
             [&](Value row) { scoreTile(queries, row, keys, panel, panels, scores, tile); });
    });
  });
}

// The keys of a step for every vector of positions, one list for each of its dimensions.
llvm::SmallVector<Values, 2> AttentionProducts::loadKeys(ArrayRef<Value> panels, Value step) {
  llvm::SmallVector<Values, 2> keys(keyStep());
  Type floats = e.vec(e.f32(), e.lanes());
  auto words = VectorType::get({e.lanes()}, e.builder.getI32Type());
  auto constant = [&](uint32_t bits) -> Value {
    auto value = e.builder.getI32IntegerAttr(static_cast<int32_t>(bits));
    return arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(words, value.getValue()));
  };
  for (Value panel : panels) {
    for (int64_t begin = 0; begin < kPositionBlock; begin += e.lanes()) {
      Value address = e.at(panel, e.f32(), e.add(e.mul(step, kPositionBlock), begin));
      if (!bf16) {
        keys[0].push_back(e.load(floats, address));
        continue;
      }
      // A bf16 is the upper half of the f32 of equal value.
      Value pairs = e.load(words, address);
      Value even = arith::ShLIOp::create(e.builder, e.loc, pairs, constant(16));
      Value odd = arith::AndIOp::create(e.builder, e.loc, pairs, constant(0xffff0000));
      keys[0].push_back(arith::BitcastOp::create(e.builder, e.loc, floats, even));
      keys[1].push_back(arith::BitcastOp::create(e.builder, e.loc, floats, odd));
    }
  }
  return keys;
}

void AttentionProducts::scoreTile(Value queries, Value row, Value keys, Value panel, Value panels,
                                  Value scores, const Tile &tile) {
  int64_t perPanel = kPositionBlock / e.lanes(), width = tile.panels * perPanel;
  int64_t steps = d / keyStep(), panelLines = kPositionBlock * steps;
  Values addresses;
  for (int64_t i = 0; i < tile.panels; ++i) {
    // Panels past the last one stand for that one again; nobody reads their scores.
    Value index = e.min(e.add(panel, i), e.sub(panels, 1));
    addresses.push_back(e.at(keys, e.f32(), e.mul(index, panelLines)));
  }
  Value query = e.at(queries, e.f32(), e.mul(row, queryStride()));
  Values sums(tile.rows * width, e.splat(0.0, e.lanes()));
  sums = e.loop(e.c(0), e.c(steps), e.c(1), sums, [&](Value step, ValueRange carried) {
    Values next(carried);
    llvm::SmallVector<Values, 2> key = loadKeys(addresses, step);
    if (tile.rows < kFewestRowsInCache) {
      for (Value address : addresses) {
        Value ahead = e.add(e.mul(step, kPositionBlock), tile.panels * panelLines);
        e.prefetch(e.at(address, e.f32(), ahead));
      }
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      for (int64_t part = 0; part < keyStep(); ++part) {
        Value at = e.add(e.mul(step, keyStep()), r * queryStride() + part);
        Value q = e.splat(e.loadF32(query, at), e.lanes());
        for (int64_t i = 0; i < width; ++i) {
          next[r * width + i] = e.fma(q, key[part][i], next[r * width + i]);
        }
      }
    }
    return next;
  });
  Value to = e.at(scores, e.f32(), e.add(e.mul(row, scoreStride()), e.mul(panel, kPositionBlock)));
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t i = 0; i < width; ++i) {
      e.store(sums[r * width + i], e.at(to, e.f32(), r * scoreStride() + i * e.lanes()));
    }
  }
}

void AttentionProducts::weightedValues(Value p, Value rows, Value values, const Visible &visible,
                                       const Epilogue &epilogue) {
  overRowTiles(rows, [&](Value begin, Value end, const Tile &tile) {
    int64_t whole = dimVectors() / tile.vectors * tile.vectors;
    auto sweep = [&](Value vector, int64_t width) {
      e.loop(begin, end, tile.rows,
             [&](Value row) { valueTile(p, row, values, vector, width, visible, epilogue, tile); });
    };
    e.loop(e.c(0), e.c(whole), tile.vectors, [&](Value vector) { sweep(vector, tile.vectors); });
    if (whole != dimVectors()) {
      sweep(e.c(whole), dimVectors() - whole);
    }
  });
}

Value AttentionProducts::loadValues(Value address) {
  return e.toFloat(e.loadFirst(e.elementType(bf16), e.lanes(), vectorLength(), address, bf16 ? 2 : 4));
}

void AttentionProducts::valueTile(Value p, Value row, Value values, Value vector, int64_t width,
                                  const Visible &visible, const Epilogue &epilogue, const Tile &tile) {
  Type element = e.elementType(bf16);
  int64_t elementBytes = bf16 ? 2 : 4;
  Value probabilities = e.at(p, e.f32(), e.mul(row, scoreStride()));
  Values columns;
  for (int64_t i = 0; i < width; ++i) {
    columns.push_back(e.at(values, element, vectorBegin(e.add(vector, i))));
  }
  Values ends;
  for (int64_t r = 0; r < tile.rows; ++r) {
    ends.push_back(visible(e.add(row, r)));
  }
  auto step = [&](Value position, ValueRange carried, bool checked) {
    Values next(carried), value;
    for (Value column : columns) {
      value.push_back(loadValues(e.at(column, element, e.mul(position, d))));
    }
    if (tile.rows < kFewestRowsInCache) {
      for (int64_t line = 0; line < width * e.lanes() * elementBytes; line += kLineBytes) {
        Value address = e.at(columns[0], element, e.mul(position, d));
        e.prefetch(e.at(address, e.builder.getI8Type(), kReadAheadBytes + line));
      }
    }
    for (int64_t r = 0; r < tile.rows; ++r) {
      Value weight = e.splat(e.loadF32(probabilities, e.add(position, r * scoreStride())), e.lanes());
      Value seen = checked ? e.less(position, ends[r]) : Value();
      for (int64_t i = 0; i < width; ++i) {
        Value &sum = next[r * width + i];
        Value more = e.fma(weight, value[i], sum);
        sum = checked ? e.select(seen, more, sum) : more;
      }
    }
    return next;
  };
  Values sums(tile.rows * width, e.splat(0.0, e.lanes()));
  sums = e.loop(e.c(0), ends.front(), e.c(1), sums,
                [&](Value position, ValueRange carried) { return step(position, carried, false); });
  // Positions that only the later rows see. What the others must not see may be anything, a NaN included.
  if (tile.rows > 1) {
    sums = e.loop(ends.front(), ends.back(), e.c(1), sums,
                  [&](Value position, ValueRange carried) { return step(position, carried, true); });
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t i = 0; i < width; ++i) {
      epilogue(e.add(row, r), e.add(vector, i), sums[r * width + i]);
    }
  }
}

} // namespace smelt::codegen::cpu
