#include "dialect/Interpreter/Ops.h"

#include "dialect/Interpreter/Parallel.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace mlir::smelt::interpreter {

// Eight running sums, since the compiler may not reorder one; the order is the same for every call.
static double dot(const double *a, const double *b, int64_t size) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (int64_t lane = 0; i < size; ++i, ++lane) {
    sums[lane] += a[i] * b[i];
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Replaces scores by their softmax.
static void softmax(double *scores, int64_t size) {
  double highest = *std::max_element(scores, scores + size);
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) {
    scores[i] = std::exp(scores[i] - highest);
    sum += scores[i];
  }
  for (int64_t i = 0; i < size; ++i) {
    scores[i] /= sum;
  }
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Tensor evalEmbed(const Tensor &tokens, const Tensor &weight) {
  Tensor result({tokens.shape[0], weight.width()});
  for (int64_t t = 0; t < result.rows(); ++t) {
    std::copy_n(weight.row(static_cast<int64_t>(tokens.values[t])), weight.width(), result.row(t));
  }
  return result;
}

Tensor evalRmsNorm(const Tensor &input, const Tensor &weight, double eps, int64_t heads) {
  Tensor result(input.shape);
  int64_t width = input.width() / heads;
  for (int64_t group = 0; group < input.rows() * heads; ++group) {
    const double *in = input.values.data() + group * width;
    double *out = result.values.data() + group * width;
    double scale = 1 / std::sqrt(dot(in, in, width) / width + eps);
    for (int64_t i = 0; i < width; ++i) {
      out[i] = in[i] * weight.values[i] * scale;
    }
  }
  return result;
}

Tensor evalLinear(const Tensor &input, const Tensor &weight, const Tensor *bias) {
  Tensor result({input.rows(), weight.shape[0]});
  parallelFor(result.rows(), static_cast<int64_t>(weight.values.size()), [&](int64_t t) {
    for (int64_t o = 0; o < result.width(); ++o) {
      result.row(t)[o] = dot(input.row(t), weight.row(o), input.width()) + (bias ? bias->values[o] : 0);
    }
  });
  return result;
}

Tensor evalRope(const Tensor &input, int64_t heads, double theta) {
  Tensor result(input.shape);
  int64_t size = input.width() / heads, half = size / 2;
  for (int64_t t = 0; t < input.rows(); ++t) {
    for (int64_t i = 0; i < half; ++i) {
      double angle = t * std::pow(theta, -2.0 * i / size);
      double cosine = std::cos(angle), sine = std::sin(angle);
      for (int64_t head = 0; head < heads; ++head) {
        const double *in = input.row(t) + head * size;
        double *out = result.row(t) + head * size;
        out[i] = in[i] * cosine - in[i + half] * sine;
        out[i + half] = in[i + half] * cosine + in[i] * sine;
      }
    }
  }
  return result;
}

void roundToBf16(Tensor &tensor) {
  for (double &value : tensor.values) {
    // Eight significant bits; nearbyint rounds ties to even. Numbers below the normal ones do not matter
    // here.
    int exponent;
    double fraction = std::frexp(value, &exponent);
    value = std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
  }
}

Tensor evalAttention(const Tensor &query, const Tensor &key, const Tensor &value,
                     const AttentionShape &shape) {
  Tensor result(query.shape);
  int64_t size = shape.headDim, queriesPerKv = shape.queryHeads / shape.kvHeads;
  parallelFor(query.rows(), query.rows() * query.width(), [&](int64_t t) {
    std::vector<double> scores(t + 1);
    for (int64_t head = 0; head < shape.queryHeads; ++head) {
      int64_t kvOffset = head / queriesPerKv * size;
      for (int64_t s = 0; s <= t; ++s) {
        scores[s] = dot(query.row(t) + head * size, key.row(s) + kvOffset, size) / std::sqrt(size);
      }
      softmax(scores.data(), t + 1);
      double *out = result.row(t) + head * size;
      for (int64_t s = 0; s <= t; ++s) {
        for (int64_t i = 0; i < size; ++i) {
          out[i] += scores[s] * value.row(s)[kvOffset + i];
        }
      }
    }
  });
  return result;
}

std::vector<int64_t> topExperts(const double *logits, int64_t experts, int64_t topK) {
  std::vector<int64_t> chosen, left(experts);
  std::iota(left.begin(), left.end(), 0);
  for (int64_t j = 0; j < topK; ++j) {
    // max_element keeps the first of equals, and `left` stays in ascending order.
    auto best = std::max_element(left.begin(), left.end(),
                                 [&](int64_t a, int64_t b) { return logits[a] < logits[b]; });
    chosen.push_back(*best);
    left.erase(best);
  }
  return chosen;
}

Tensor evalRouteWeights(const Tensor &logits, const Tensor &indices, bool isSigmoid, bool renormalize) {
  Tensor result(indices.shape);
  for (int64_t t = 0; t < logits.rows(); ++t) {
    std::vector<double> scores(logits.row(t), logits.row(t) + logits.width());
    if (isSigmoid) {
      std::transform(scores.begin(), scores.end(), scores.begin(), sigmoid);
    } else {
      softmax(scores.data(), logits.width());
    }
    double *weights = result.row(t);
    double sum = 0;
    for (int64_t j = 0; j < indices.width(); ++j) {
      weights[j] = scores[static_cast<int64_t>(indices.row(t)[j])];
      sum += weights[j];
    }
    for (int64_t j = 0; renormalize && j < indices.width(); ++j) {
      weights[j] /= sum;
    }
  }
  return result;
}

Tensor evalExpertLinear(const Tensor &input, const Tensor &indices, int64_t outWidth,
                        const std::function<Tensor(int64_t)> &readExpert) {
  int64_t topK = indices.width();
  Tensor result({indices.rows(), topK, outWidth});
  // Row t * topK + j of the result belongs to the expert indices[t][j].
  std::map<int64_t, std::vector<int64_t>> rowsOfExpert;
  for (int64_t row = 0; row < indices.rows() * topK; ++row) {
    rowsOfExpert[static_cast<int64_t>(indices.values[row])].push_back(row);
  }
  int64_t inputRowsPerToken = input.rows() / indices.rows();
  for (const auto &[expert, rows] : rowsOfExpert) {
    Tensor weight = readExpert(expert);
    parallelFor(static_cast<int64_t>(rows.size()), static_cast<int64_t>(weight.values.size()),
                [&](int64_t i) {
                  const double *in = input.row(inputRowsPerToken == 1 ? rows[i] / topK : rows[i]);
                  for (int64_t o = 0; o < outWidth; ++o) {
                    result.row(rows[i])[o] = dot(in, weight.row(o), input.width());
                  }
                });
  }
  return result;
}

Tensor evalSwiglu(const Tensor &gate, const Tensor &up) {
  Tensor result(gate.shape);
  for (size_t i = 0; i < gate.values.size(); ++i) {
    result.values[i] = gate.values[i] * sigmoid(gate.values[i]) * up.values[i];
  }
  return result;
}

Tensor evalCombine(const Tensor &rows, const Tensor &weights) {
  Tensor result({weights.rows(), rows.width()});
  for (int64_t t = 0; t < result.rows(); ++t) {
    for (int64_t j = 0; j < weights.width(); ++j) {
      for (int64_t i = 0; i < rows.width(); ++i) {
        result.row(t)[i] += weights.row(t)[j] * rows.row(t * weights.width() + j)[i];
      }
    }
  }
  return result;
}

Tensor evalResidualAdd(const Tensor &input, const Tensor &update, double scale) {
  Tensor result(input.shape);
  for (size_t i = 0; i < input.values.size(); ++i) {
    result.values[i] = input.values[i] + scale * update.values[i];
  }
  return result;
}

Tensor evalAdd(const Tensor &lhs, const Tensor &rhs) { return evalResidualAdd(lhs, rhs, 1); }

} // namespace mlir::smelt::interpreter
