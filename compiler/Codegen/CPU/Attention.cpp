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

// Where the tokens of a step belong.
struct StepTokens {
  Value positions, sequences, count;
};

// Calls body(token, count) for runs of consecutive tokens in [begin, end): of one sequence, at consecutive
// positions of one chunk.
void forEachRun(Emitter &e, const StepTokens &step, Value begin, Value end,
                const std::function<void(Value token, Value count)> &body) {
  auto continues = [&](Value token) {
    Value previous = e.sub(token, 1), position = e.loadI32(step.positions, token);
    auto both = [&](Value a, Value b) { return arith::AndIOp::create(e.builder, e.loc, a, b).getResult(); };
    Value sameSequence = e.equal(e.loadI32(step.sequences, token), e.loadI32(step.sequences, previous));
    Value nextPosition = e.equal(position, e.add(e.loadI32(step.positions, previous), 1));
    return both(both(sameSequence, nextPosition), e.notEqual(e.rem(position, kChunk), e.c(0)));
  };
  // A run is complete when the token after it does not continue it.
  e.loop(begin, end, e.c(1), {begin}, [&](Value token, ValueRange carried) {
    Value next = e.add(token, 1);
    Value last = e.choose(
        e.equal(next, end), [&] { return Values{e.equal(next, end)}; },
        [&] { return Values{e.select(continues(next), e.equal(next, end), e.lessEqual(next, end))}; })[0];
    e.when(last, [&] { body(carried[0], e.sub(next, carried[0])); });
    return Values{e.select(last, next, carried[0])};
  });
}

} // namespace

int64_t emitAttention(Emitter &e, KernelFrame &frame, const KernelDesc &k) {
  AttentionShape shape(k);
  int64_t groupWidth = shape.group() * shape.head_dim;
  Value queries = frame.binding(0);
  StepTokens step{frame.binding(1), frame.binding(2), frame.constantInt(0)};
  Value keys = frame.binding(3), values = frame.binding(4), out = frame.binding(5);
  Value capacity = frame.constantInt(1);
  int64_t tokens = unitTokens(e.isa, shape.group());
  AttentionRows rows(e, shape, tokens, frame.scratch());
  Value blocks = e.div(e.add(step.count, tokens - 1), tokens);
  frame.claim(e.mul(blocks, shape.kv_heads), {}, [&](Value unit, ValueRange) {
    // Later tokens see more: they come first, so that the last units are short.
    Value head = e.div(unit, blocks), block = e.sub(e.sub(blocks, 1), e.rem(unit, blocks));
    Value first = e.mul(block, tokens), end = e.min(e.add(first, tokens), step.count);
    forEachRun(e, step, first, end, [&](Value token, Value count) {
      Value cache = shape.cacheOffset(e, e.loadI32(step.sequences, token), head, capacity);
      Value row = e.add(e.mul(token, shape.queryWidth()), e.mul(head, groupWidth));
      rows.begin(e.at(queries, e.f32(), row), count);
      Value position = e.loadI32(step.positions, token);
      Value last = e.add(position, e.sub(count, 1));
      e.loop(e.c(0), e.add(last, 1), kChunk, [&](Value chunk) {
        Value from = e.add(cache, e.mul(chunk, shape.head_dim));
        Value seen = e.min(e.sub(e.add(last, 1), chunk), kChunk);
        Value visible = e.min(e.sub(e.add(position, 1), chunk), kChunk);
        rows.foldChunk(e.at(keys, e.f32(), from), e.at(values, e.f32(), from), visible,
                       e.div(e.add(seen, kPositionBlock - 1), kPositionBlock));
      });
      rows.finish(e.at(out, e.f32(), row));
    });
    return Values();
  });
  return (rows.scratchBytes() + 63) / 64 * 64;
}

} // namespace smelt::codegen::cpu
