#include "compiler/Codegen/CPU/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace smelt::codegen::cpu {

namespace {

int64_t laneCount(Value vector) { return cast<VectorType>(vector.getType()).getNumElements(); }

Value extract(Emitter &e, Value vector, int64_t lane) {
  return LLVM::ExtractElementOp::create(e.builder, e.loc, vector, e.c32(lane));
}

// Folds lanes [0, width/2) with lanes [width/2, width) of every group of `width` lanes of a, then of b.
// b may be null. `combine` is the operation.
Value foldHalves(Emitter &e, Value a, Value b, int64_t width,
                 const std::function<Value(Value, Value)> &combine) {
  int64_t lanes = laneCount(a), total = b ? 2 * lanes : lanes;
  llvm::SmallVector<int64_t> low, high;
  for (int64_t group = 0; group < total; group += width) {
    for (int64_t lane = 0; lane < width / 2; ++lane) {
      low.push_back(group + lane);
      high.push_back(group + width / 2 + lane);
    }
  }
  Value other = b ? b : a;
  return combine(e.shuffle(a, other, low), e.shuffle(a, other, high));
}

Value foldToScalar(Emitter &e, Value vector, const std::function<Value(Value, Value)> &combine) {
  for (int64_t width = laneCount(vector); width > 1; width /= 2) {
    vector = foldHalves(e, vector, nullptr, width, combine);
  }
  return extract(e, vector, 0);
}

} // namespace

Value reduceAdd(Emitter &e, llvm::ArrayRef<Value> items) {
  auto add = [&](Value a, Value b) { return e.addf(a, b); };
  int64_t width = laneCount(items.front());
  Values level(items.begin(), items.end());
  // Pairs of vectors share one fold until a single vector is left; that one folds into itself.
  while (level.size() > 1) {
    Values next;
    for (size_t i = 0; i < level.size(); i += 2) {
      next.push_back(foldHalves(e, level[i], level[i + 1], width, add));
    }
    level = next;
    width /= 2;
  }
  Value result = level.front();
  for (; width > 1; width /= 2) {
    result = foldHalves(e, result, nullptr, width, add);
  }
  return result;
}

Value sumLanes(Emitter &e, Value vector) {
  return foldToScalar(e, vector, [&](Value a, Value b) { return e.addf(a, b); });
}

Value maxLanes(Emitter &e, Value vector) {
  return foldToScalar(e, vector, [&](Value a, Value b) { return e.maxf(a, b); });
}

Value inverseRms(Emitter &e, Value x, int64_t count, Value eps) {
  int64_t lanes = e.lanes(), full = count / lanes * lanes;
  auto square = [&](Value begin, int64_t length, Value acc) {
    Value v = e.loadFirst(e.f32(), lanes, length, e.at(x, e.f32(), begin));
    return e.fma(v, v, acc);
  };
  Value sum = e.splat(0.0, lanes);
  if (full) {
    sum = e.loop(e.c(0), e.c(full), e.c(lanes), {sum}, [&](Value begin, ValueRange carried) {
      return Values{square(begin, lanes, carried[0])};
    })[0];
  }
  if (full != count) {
    sum = square(e.c(full), count - full, sum);
  }
  Value mean = e.divf(sumLanes(e, sum), e.f(static_cast<double>(count)));
  return e.divf(e.f(1.0), e.sqrt(e.addf(mean, eps)));
}

Value exp(Emitter &e, Value x) {
  int64_t lanes = laneCount(x);
  auto constant = [&](double value) { return e.splat(value, lanes); };
  x = e.maxf(x, constant(-87.3));
  x = arith::MinNumFOp::create(e.builder, e.loc, x, constant(88.7));
  // x = n ln2 + r with |r| <= ln2 / 2; ln2 is split so that n * hi is exact.
  Value n = math::RoundEvenOp::create(e.builder, e.loc, e.mulf(x, constant(1.44269504088896341)));
  Value r = e.fma(n, constant(-0.693359375), x);
  r = e.fma(n, constant(2.12194440e-4), r);
  // exp(r) = 1 + r + r^2 q(r), q of degree 5 by its Taylor coefficients 1/2! .. 1/7!: the truncation, r^8/8!
  // at r = 0.3466, is 5e-9, below half an ulp.
  static const double coefficients[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5};
  Value q = constant(coefficients[0]);
  for (int i = 1; i < 6; ++i) {
    q = e.fma(q, r, constant(coefficients[i]));
  }
  Value value = e.addf(constant(1.0), e.fma(e.mulf(r, r), q, r));
  // Multiply by 2^n in two steps: n reaches 128, which one exponent field cannot hold.
  auto i32v = VectorType::get({lanes}, e.builder.getI32Type());
  auto broadcast = [&](int32_t bits) -> Value {
    return arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(i32v, bits));
  };
  Value exponent = arith::FPToSIOp::create(e.builder, e.loc, i32v, n);
  Value half = arith::ShRSIOp::create(e.builder, e.loc, exponent, broadcast(1));
  Value rest = arith::SubIOp::create(e.builder, e.loc, exponent, half);
  for (Value part : {half, rest}) {
    Value biased = arith::AddIOp::create(e.builder, e.loc, part, broadcast(127));
    Value bits = arith::ShLIOp::create(e.builder, e.loc, biased, broadcast(23));
    value = e.mulf(value, arith::BitcastOp::create(e.builder, e.loc, x.getType(), bits));
  }
  return value;
}

namespace {

// value * 2^n for integral n in [-126, 0] and value in [0.7, 1.42].
Value scaleByPower(Emitter &e, Value value, Value n) {
  int64_t lanes = laneCount(value);
  if (lanes == 16) {
    // VSCALEFPS, unmasked, in the current rounding mode.
    constexpr int32_t currentRounding = 4;
    Value all = arith::ConstantIntOp::create(e.builder, e.loc, -1, 16);
    auto name = e.builder.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512");
    return LLVM::CallIntrinsicOp::create(e.builder, e.loc, value.getType(), name,
                                         ValueRange{value, n, value, all, e.c32(currentRounding)})
        .getResult(0);
  }
  // Adds n to the exponent: value is normal, and so is the result, or just below.
  auto words = VectorType::get({lanes}, e.builder.getI32Type());
  Value position = arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(words, int32_t(23)));
  Value exponent =
      arith::ShLIOp::create(e.builder, e.loc, arith::FPToSIOp::create(e.builder, e.loc, words, n), position);
  Value bits = arith::BitcastOp::create(e.builder, e.loc, words, value);
  bits = arith::AddIOp::create(e.builder, e.loc, bits, exponent);
  return arith::BitcastOp::create(e.builder, e.loc, value.getType(), bits);
}

} // namespace

Value exp2OfNonPositive(Emitter &e, Value x) {
  int64_t lanes = laneCount(x);
  Value n = math::RoundEvenOp::create(e.builder, e.loc, x);
  Value f = e.subf(x, n);
  // 2^f = 1 + f q(f) on |f| <= 1/2, q of degree 5: minimax in relative error with the constant term held at
  // 1, so that 2^0 is 1; its error is 2e-9, a thirtieth of an ulp.
  static const double coefficients[] = {
      0x1.41fbbcp-13, 0x1.5f3e52p-10, 0x1.3b2d4cp-7, 0x1.c6aee8p-5, 0x1.ebfbdcp-3, 0x1.62e430p-1, 1.0};
  Value value = e.splat(coefficients[0], lanes);
  for (double coefficient : llvm::drop_begin(coefficients)) {
    value = e.fma(value, f, e.splat(coefficient, lanes));
  }
  value = scaleByPower(e, value, n);
  // A NaN is not smaller than anything and stays.
  Value small = arith::CmpFOp::create(e.builder, e.loc, arith::CmpFPredicate::OLT, x, e.splat(-125.5, lanes));
  return e.select(small, e.splat(0.0, lanes), value);
}

Value roundToBf16(Emitter &e, Value x) {
  auto words = VectorType::get({laneCount(x)}, e.builder.getI32Type());
  auto constant = [&](uint32_t bits) -> Value {
    auto value = e.builder.getI32IntegerAttr(static_cast<int32_t>(bits));
    return arith::ConstantOp::create(e.builder, e.loc, DenseElementsAttr::get(words, value.getValue()));
  };
  auto both = [&](Value a, Value b) -> Value { return arith::AndIOp::create(e.builder, e.loc, a, b); };
  auto plus = [&](Value a, Value b) -> Value { return arith::AddIOp::create(e.builder, e.loc, a, b); };
  Value bits = arith::BitcastOp::create(e.builder, e.loc, words, x);
  Value odd = both(arith::ShRUIOp::create(e.builder, e.loc, bits, constant(16)), constant(1));
  Value rounded = plus(plus(bits, odd), constant(0x7fff));
  Value quiet = arith::OrIOp::create(e.builder, e.loc, bits, constant(0x400000));
  Value isNan = arith::CmpFOp::create(e.builder, e.loc, arith::CmpFPredicate::UNO, x, x);
  Value result = both(e.select(isNan, quiet, rounded), constant(0xffff0000));
  return arith::BitcastOp::create(e.builder, e.loc, x.getType(), result);
}

Value sigmoid(Emitter &e, Value x) {
  int64_t lanes = laneCount(x);
  Value negated = e.subf(e.splat(0.0, lanes), x);
  Value one = e.splat(1.0, lanes);
  return e.divf(one, e.addf(one, exp(e, negated)));
}

Value silu(Emitter &e, Value x) { return e.mulf(x, sigmoid(e, x)); }

} // namespace smelt::codegen::cpu
