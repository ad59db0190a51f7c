#include "compiler/Codegen/CUDA/DecodeGemv.h"

#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <algorithm>

namespace smelt::codegen::cuda {

namespace {

constexpr int64_t CHUNK = 8;           // columns of a load: 16 bytes
constexpr int64_t STEP = WARP * CHUNK; // columns of a step
constexpr int64_t LOADS = 8;           // in flight, of a lane
constexpr int64_t GROUP = 4;           // tokens multiplied at once; more take turns
constexpr int64_t STAGED_STEPS = 8;    // of each of these, in shared memory at once: 32 KiB
constexpr int64_t STAGE_BATCH = 4;     // loads of a thread before it stores the first
// Activations of a step lie in two planes, the even and the odd quads of columns, so that the 16-byte reads
// of neighbouring lanes are contiguous; the skew puts the planes on different banks for the writes.
constexpr int64_t PLANE_SKEW = 64;
constexpr int64_t STRAIGHT_BLOCKS = 2; // blocks of columns unrolled rather than looped over

} // namespace

// Kernels leave the number of registers to ptxas (about 150): under a bound it fetches just as far ahead, and
// spills. 3 blocks of 4 warps fit a multiprocessor then, enough with 8 loads of each lane in flight.
Gemv::Gemv(Emitter &e, StageFrame &frame, const GemvShape &shape, const GemvInput &input)
    : e(e), shape(shape), input(input) {
  staged = frame.shared(GROUP * 2 * planeBytes(), 128);
  if (input.norm) {
    squaresBase = frame.shared(4 * shape.warps * SHORT_STEP_TOKENS);
  }
}

int64_t Gemv::steps() const { return (rowStride(shape.in) + STEP - 1) / STEP; }
int64_t Gemv::stepsPerBlock() const { return std::min(STAGED_STEPS, steps()); }
int64_t Gemv::depth() const { return std::clamp<int64_t>(LOADS / shape.rows, 1, steps()); }
int64_t Gemv::planeBytes() const { return stepsPerBlock() * STEP * 4 / 2 + PLANE_SKEW; }

Values Gemv::forTokenCount(const std::function<Values(int64_t n)> &body) {
  std::function<Values(int64_t)> atMost = [&](int64_t n) {
    if (n == 1) {
      return body(1);
    }
    return e.choose(e.less(input.tokens, n / 2 + 1), [&] { return atMost(n / 2); }, [&] { return body(n); });
  };
  return atMost(SHORT_STEP_TOKENS);
}

Value Gemv::xRow(Value token) {
  Value row = input.gather ? e.readI32(input.gather, token) : token;
  return e.row(input.x, e.f32(), row, shape.in);
}

// Step first + step of every row. `known` is that number where the compiler knows it, else -1.
Values Gemv::loadStep(ValueRange rows, Value first, int64_t step, int64_t known) {
  int64_t chunks = rowStride(shape.in) / CHUNK;
  bool whole = known >= 0 && (known + 1) * WARP <= chunks;
  Value chunk = e.add(e.mul(first, WARP), e.lane());
  Values words;
  for (Value row : rows) {
    Value address = e.at(row, e.bf16(), e.mul(chunk, CHUNK));
    int64_t offset = step * STEP * 2;
    words.append(whole ? e.stream(address, offset)
                       : e.streamIf(e.less(chunk, chunks - step * WARP), address, offset));
  }
  return words;
}

Values Gemv::prefetch(ValueRange rows) {
  Values ring;
  for (int64_t step = 0; step < depth(); ++step) {
    ring.append(loadStep(rows, e.c(0), step, step));
  }
  return ring;
}

// Brings columns [firstStep, firstStep + count) of n tokens to shared memory, zeros beyond the row's end, and
// adds their squares up by thread. `whole`: the columns all exist.
void Gemv::stage(int64_t n, int64_t firstToken, Value firstStep, int64_t count, bool whole, Values &squares) {
  int64_t width = shape.in % 4 == 0 ? 4 : 1; // columns of a load
  int64_t items = count * STEP / width;      // of a token
  bool idle = items % shape.threads() != 0;  // some threads have nothing to bring in the last turn
  Type type = width == 4 ? e.vec(e.f32(), 4) : e.f32();
  Value thread = e.thread(), firstColumn = e.mul(firstStep, STEP), last = e.sub(input.tokens, 1);
  Values rows;
  for (int64_t t = 0; t < n; ++t) {
    rows.push_back(xRow(e.min(e.c(firstToken + t), last)));
  }
  struct Item {
    int64_t token;
    Value index, valid, value, weight;
  };
  llvm::SmallVector<Item> batch;
  auto flush = [&] {
    for (Item &item : batch) {
      Value quad = width == 4 ? item.index : e.div(item.index, 4);
      Value offset = e.add(e.mul(e.andi(quad, 1), planeBytes()), e.mul(e.shr(quad, 1), 16));
      offset = e.add(offset, item.token * 2 * planeBytes());
      if (width == 1) {
        offset = e.add(offset, e.mul(e.andi(item.index, 3), 4));
      }
      Values scaled;
      for (int64_t i = 0; i < width; ++i) {
        Value x = width == 4 ? e.element(item.value, i) : item.value;
        x = item.valid ? e.select(item.valid, x, e.f(0)) : x;
        if (input.norm) {
          squares[item.token] = e.fma(x, x, squares[item.token]);
          x = e.mulf(x, e.fromBf16(width == 4 ? e.element(item.weight, i) : item.weight));
        }
        scaled.push_back(x);
      }
      Value address = e.at(staged, e.builder.getI8Type(), offset);
      auto put = [&] { e.store(width == 4 ? e.vectorOf(scaled) : scaled[0], address, 4 * width); };
      if (idle) {
        e.when(e.less(item.index, items), put);
      } else {
        put();
      }
    }
    batch.clear();
  };
  for (int64_t begin = 0; begin < items; begin += shape.threads()) {
    Value index = e.add(thread, begin);
    Value column = e.add(firstColumn, e.mul(index, width));
    Value valid;
    if (!whole || idle) {
      valid = e.both(e.less(column, shape.in), e.less(index, items));
      column = e.min(column, shape.in - width);
    }
    Value weight;
    if (input.norm) {
      Type weights = width == 4 ? e.vec(e.bf16(), 4) : e.bf16();
      weight = e.loadReadOnly(weights, e.at(input.norm, e.bf16(), column), 2 * width);
    }
    for (int64_t t = 0; t < n; ++t) {
      Value value = e.loadReadOnly(type, e.at(rows[t], e.f32(), column), 4 * width);
      batch.push_back({t, index, valid, value, weight});
      if (static_cast<int64_t>(batch.size()) == STAGE_BATCH) {
        flush();
      }
    }
  }
  flush();
}

void Gemv::storeSquares(int64_t n, int64_t firstToken, ValueRange squares) {
  Values sums;
  for (int64_t t = 0; t < n; ++t) {
    sums.push_back(e.warpSum(squares[t]));
  }
  Value base = e.at(squaresBase, e.f32(), e.mul(e.warp(), SHORT_STEP_TOKENS));
  e.when(e.equal(e.lane(), 0), [&] {
    for (int64_t t = 0; t < n; ++t) {
      e.storeF32(sums[t], base, e.c(firstToken + t));
    }
  });
}

Value Gemv::inverseRms(Value token) {
  Value sum = e.f(0);
  for (int64_t warp = 0; warp < shape.warps; ++warp) {
    sum = e.addf(sum, e.loadF32(squaresBase, e.add(token, warp * SHORT_STEP_TOKENS)));
  }
  return e.rsqrt(e.fma(sum, e.f(1.0 / static_cast<double>(shape.in)), input.epsilon));
}

void Gemv::accumulate(int64_t n, int64_t stepInBlock, ValueRange words, Values &sums) {
  Type quad = e.vec(e.f32(), 4), byte = e.builder.getI8Type();
  Value mine = e.at(staged, byte, e.mul(e.lane(), 16));
  for (int64_t half = 0; half < 2; ++half) {
    Values weights; // of all rows, 4 columns each
    for (int64_t r = 0; r < shape.rows; ++r) {
      for (int64_t i = 0; i < 4; ++i) {
        Value word = words[4 * r + 2 * half + i / 2];
        weights.push_back(i % 2 ? e.high(word) : e.low(word));
      }
    }
    for (int64_t t = 0; t < n; ++t) {
      int64_t offset = t * 2 * planeBytes() + half * planeBytes() + stepInBlock * WARP * 16;
      Value x = e.load(quad, e.at(mine, byte, offset), 16);
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t r = 0; r < shape.rows; ++r) {
          Value &sum = sums[r * n + t];
          sum = e.fma(weights[4 * r + i], e.element(x, i), sum);
        }
      }
    }
  }
}

Values Gemv::reduce(int64_t n, int64_t firstToken, ValueRange sums) {
  Values results;
  // Lanes of tokens that are yet to come take one whose squares are known.
  Value token = e.min(laneToken(), firstToken + n - 1);
  Value inverse = input.norm ? inverseRms(token) : Value();
  for (int64_t r = 0; r < shape.rows; ++r) {
    Value mine;
    for (int64_t t = n - 1; t >= 0; --t) {
      Value sum = e.warpSum(sums[r * n + t]);
      mine = mine ? e.select(e.equal(e.lane(), firstToken + t), sum, mine) : sum;
    }
    results.push_back(inverse ? e.mulf(mine, inverse) : mine);
  }
  return results;
}

bool Gemv::staysStaged(int64_t n) const { return n <= GROUP && steps() <= stepsPerBlock(); }

Values Gemv::multiply(int64_t n, ValueRange rows, Values ring, bool restage) {
  if (n <= GROUP) {
    return multiplyGroup(n, 0, rows, ring, restage, restage && staysStaged(n));
  }
  // The rows are read again for the second half of the tokens; they come from the cache then.
  Values results = multiplyGroup(GROUP, 0, rows, ring, restage, false);
  Values others = multiplyGroup(GROUP, GROUP, rows, prefetch(rows), true, false);
  for (int64_t r = 0; r < shape.rows; ++r) {
    results[r] = e.select(e.less(e.lane(), GROUP), results[r], others[r]);
  }
  return results;
}

Values Gemv::multiplyGroup(int64_t n, int64_t firstToken, ValueRange rows, Values ring, bool again,
                           bool reuse) {
  int64_t total = steps(), perBlock = stepsPerBlock(), words = 4 * shape.rows;
  Values sums(shape.rows * n, e.f(0)), squares(n, e.f(0));

  // Multiplies `count` staged steps, of which the first has the number `first`; `known` is that number, or
  // one that is the same modulo depth() where it is not known. `more`: as many steps again follow for sure.
  auto multiplyBlock = [&](Value first, int64_t known, int64_t count, bool more) {
    for (int64_t j = 0; j < count; ++j) {
      auto *slot = ring.begin() + (known + j) % depth() * words;
      Values current(slot, slot + words);
      int64_t next = known + j + depth();
      if (more || next < total) {
        // Where the number is known it is the offset, from the start of the row.
        Values loaded = more ? loadStep(rows, first, j + depth(), -1) : loadStep(rows, e.c(0), next, next);
        std::copy(loaded.begin(), loaded.end(), slot);
      }
      if (shape.stepwise) {
        e.warpBarrier();
      }
      accumulate(n, j, current, sums);
    }
  };
  auto stageBlock = [&](Value first, int64_t count, bool whole, bool again, bool last) {
    if (again) {
      e.barrier(); // the block before has been read
    }
    stage(n, firstToken, first, count, whole, squares);
    if (last && input.norm) {
      storeSquares(n, firstToken, squares);
    }
    e.barrier();
  };

  int64_t begin = 0;
  if (total > STRAIGHT_BLOCKS * perBlock) {
    begin = (total - 1) / perBlock * perBlock;
    auto pack = [&] {
      Values all(sums);
      all.append(squares);
      all.append(ring);
      return all;
    };
    auto unpack = [&](ValueRange all) {
      size_t at = 0;
      for (Values *part : {&sums, &squares, &ring}) {
        for (Value &value : *part) {
          value = all[at++];
        }
      }
    };
    static_assert(STAGED_STEPS % LOADS == 0, "an iteration starts where the ring does");
    unpack(e.loop(e.c(0), e.c(begin), e.c(perBlock), pack(), [&](Value first, ValueRange in) {
      unpack(in);
      stageBlock(first, perBlock, true, true, false);
      multiplyBlock(first, 0, perBlock, true);
      return pack();
    }));
  }
  for (int64_t first = begin; first < total; first += perBlock) {
    int64_t count = std::min(perBlock, total - first);
    if (!reuse) {
      bool whole = (first + count) * STEP <= shape.in;
      stageBlock(e.c(first), count, whole, first > 0 || again, first + count == total);
    }
    multiplyBlock(e.c(first), first, count, false);
  }
  return reduce(n, firstToken, sums);
}

} // namespace smelt::codegen::cuda
