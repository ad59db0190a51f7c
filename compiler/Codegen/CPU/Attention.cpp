// attention: what work there is and who does it. AttentionRows.h defines the result.
#include "compiler/Codegen/CPU/AttentionRows.h"
#include "compiler/Codegen/CPU/Kernels.h"

#include <algorithm>

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

// Rows of a unit at least, if there are as many tokens, and at most for the sake of even tiles.
constexpr int64_t kFewestRows = 24;
constexpr int64_t kMostRows = 96;
// Steps of at most so many tokens, or one for each sequence of the session, are cut by chunks as well. The
// buffer of partials is made for this.
constexpr int64_t kFewTokens = 8;

// Tokens of a unit: enough rows to make loads of keys and values count, and a whole number of tall tiles.
int64_t unitTokens(const IsaLevel &isa, int64_t group) {
  int64_t tokens = std::max<int64_t>(1, (kFewestRows + group - 1) / group);
  for (int64_t even = tokens; even * group <= kMostRows; ++even) {
    if (even * group % isa.tiles.front().rows == 0) {
      return even;
    }
  }
  return tokens;
}

// The attention of a step. Its work is cut into units of some tokens and one kv head; in steps of few tokens
// also by chunks of positions, whose partial results the worker that finishes last folds.
class AttentionKernel {
public:
  AttentionKernel(Emitter &e, KernelFrame &frame, const KernelDesc &k)
      : e(e), frame(frame), shape(k), unit_tokens(unitTokens(e.isa, shape.group())),
        queries(frame.binding(0)), positions(frame.binding(1)), sequences(frame.binding(2)),
        keys(frame.binding(3)), values(frame.binding(4)), out(frame.binding(5)), partials(frame.binding(6)),
        tokens(frame.constantInt(0)), capacity(frame.constantInt(1)), sequence_count(frame.constantInt(2)),
        rows(e, shape, unit_tokens, frame.scratch()) {}

  int64_t scratchBytes() const { return rows.scratchBytes(); }

  void emit() {
    Value most = e.select(e.less(sequence_count, kFewTokens), e.c(kFewTokens), sequence_count);
    few = e.lessEqual(tokens, most);
    Value blocks = e.select(few, tokens, e.div(e.add(tokens, unit_tokens - 1), unit_tokens));
    Value parts = e.choose(few, [&] { return Values{mostChunks()}; }, [&] { return Values{e.c(1)}; })[0];
    auto unit = [&](Value index) {
      Value part = e.rem(index, parts), rest = e.div(index, parts);
      // Later tokens see more: they come first, so that the last units are short.
      Value head = e.div(rest, blocks), block = e.sub(e.sub(blocks, 1), e.rem(rest, blocks));
      computeUnit(block, head, part);
    };
    frame.claim(e.mul(e.mul(blocks, shape.kv_heads), parts), unit,
                [&] { e.when(e.less(e.c(1), parts), [&] { foldParts(); }); });
  }

private:
  Value chunksOf(Value position) { return e.add(e.div(position, kChunk), 1); }
  Value mostChunks() {
    return e.loop(e.c(0), tokens, e.c(1), {e.c(1)}, [&](Value token, ValueRange carried) {
      Value chunks = chunksOf(e.loadI32(positions, token));
      return Values{e.select(e.less(carried[0], chunks), chunks, carried[0])};
    })[0];
  }
  Value both(Value a, Value b) { return arith::AndIOp::create(e.builder, e.loc, a, b); }

  // Whether a token is next to the one before it: of the same sequence, at the next position of the same
  // chunk.
  Value continues(Value token) {
    Value previous = e.sub(token, 1), position = e.loadI32(positions, token);
    Value sameSequence = e.equal(e.loadI32(sequences, token), e.loadI32(sequences, previous));
    Value nextPosition = e.equal(position, e.add(e.loadI32(positions, previous), 1));
    return both(both(sameSequence, nextPosition), e.notEqual(e.rem(position, kChunk), e.c(0)));
  }

  // Calls body(token, count) for the runs of tokens that continue each other in [begin, end).
  void forEachRun(Value begin, Value end, const std::function<void(Value token, Value count)> &body) {
    e.loop(begin, end, e.c(1), {begin}, [&](Value token, ValueRange carried) {
      Value next = e.add(token, 1), atEnd = e.equal(next, end);
      Value goesOn = e.choose(
          atEnd, [&] { return Values{e.notEqual(next, end)}; }, [&] { return Values{continues(next)}; })[0];
      Value first = e.select(goesOn, carried[0], next);
      e.choose(
          goesOn, [] { return Values(); },
          [&] { return body(carried[0], e.sub(next, carried[0])), Values(); });
      return Values{first};
    });
  }

  // The end of the tokens of a unit that begins at `token`: those of its block. In a step of few tokens there
  // is a unit for every token and chunk, but the first token of a run computes all of it, and a token that
  // does not see the chunk nothing.
  Value unitEnd(Value token, Value part) {
    Value inBlock = e.rem(token, unit_tokens);
    Value end = e.min(e.add(token, e.sub(e.c(unit_tokens), inBlock)), tokens);
    return e.choose(
        few,
        [&] {
          Value begins = e.choose(
              e.equal(inBlock, e.c(0)), [&] { return Values{e.c(1)}; },
              [&] { return Values{e.select(continues(token), e.c(0), e.c(1))}; })[0];
          Value sees = e.less(part, chunksOf(e.loadI32(positions, token)));
          return Values{e.select(both(e.equal(begins, e.c(1)), sees), end, token)};
        },
        [&] { return Values{end}; })[0];
  }

  void computeUnit(Value block, Value head, Value part) {
    Value first = e.select(few, block, e.mul(block, unit_tokens));
    forEachRun(first, unitEnd(first, part), [&](Value token, Value count) {
      Value mine = e.select(few, e.equal(token, first), e.lessEqual(first, token));
      e.when(mine, [&] { computeRun(token, count, head, part); });
    });
  }

  void computeRun(Value token, Value count, Value head, Value part) {
    Value chunks = chunksOf(e.loadI32(positions, token));
    Value row = e.add(e.mul(token, shape.queryWidth()), e.mul(head, shape.group() * shape.head_dim));
    rows.begin(e.at(queries, e.f32(), row), count);
    Value begin = e.select(few, part, e.c(0)), end = e.select(few, e.add(part, 1), chunks);
    foldChunks(token, count, head, begin, end);
    e.choose(
        e.equal(e.sub(end, begin), chunks), [&] { return rows.finish(e.at(out, e.f32(), row)), Values(); },
        [&] {
          Value to = partialAt(token, part, e.mul(head, shape.group()));
          return rows.storePartials(to, e.mul(partialStride(), slots())), Values();
        });
  }

  void foldChunks(Value token, Value count, Value head, Value firstChunk, Value endChunk) {
    Value cache = shape.cacheOffset(e, e.loadI32(sequences, token), head, capacity);
    Value position = e.loadI32(positions, token), end = e.add(position, count);
    e.loop(firstChunk, endChunk, 1, [&](Value chunk) {
      Value begin = e.mul(chunk, kChunk), from = e.add(cache, e.mul(begin, shape.head_dim));
      Value seen = e.min(e.sub(end, begin), kChunk);
      Value visible = e.min(e.sub(e.add(position, 1), begin), kChunk);
      Type element = shape.cacheElement(e);
      rows.foldChunk(e.at(keys, element, from), e.at(values, element, from), visible,
                     e.div(e.add(seen, kPositionBlock - 1), kPositionBlock));
    });
  }

  // Partials are [token][chunk][query head].
  Value slots() { return e.div(e.add(capacity, kChunk - 1), kChunk); }
  Value partialStride() { return e.c(shape.query_heads * shape.partialFloats()); }
  Value partialAt(Value token, Value chunk, Value queryHead) {
    Value slot = e.add(e.mul(token, slots()), chunk);
    return e.at(partials, e.f32(),
                e.mul(e.add(e.mul(slot, shape.query_heads), queryHead), shape.partialFloats()));
  }

  // The results of every token of several chunks.
  void foldParts() {
    e.loop(e.c(0), tokens, 1, [&](Value token) {
      Value chunks = chunksOf(e.loadI32(positions, token));
      e.when(e.less(e.c(1), chunks), [&] {
        e.loop(e.c(0), e.c(shape.query_heads), 1, [&](Value head) {
          Value to = e.add(e.mul(token, shape.queryWidth()), e.mul(head, shape.head_dim));
          rows.foldPartials(partialAt(token, e.c(0), head), partialStride(), chunks, e.at(out, e.f32(), to));
        });
      });
    });
  }

  Emitter &e;
  KernelFrame &frame;
  AttentionShape shape;
  int64_t unit_tokens;
  Value queries, positions, sequences, keys, values, out, partials, tokens, capacity, sequence_count;
  Value few; // whether the step is cut by chunks as well
  AttentionRows rows;
};

} // namespace

int64_t emitAttention(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  AttentionKernel kernel(e, frame, k);
  kernel.emit();
  return kernel.scratchBytes();
}

} // namespace smelt::codegen::cpu
