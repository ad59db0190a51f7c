// The budgets of a looped model as straight lines in the number of experts, in exact integers.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Planner/Shape.h"

#include <cstdint>
#include <vector>

namespace smelt::planner {

// Products of the dimensions, layers, visits and attended positions of models that can be counted stay below
// 2^127.
using Wide = __int128;

// at + per_expert x experts
struct Line {
  Wide at = 0;
  Wide per_expert = 0;

  Wide operator()(int64_t experts) const { return at + per_expert * experts; }
};

Wide floorDivide(Wide a, Wide b);

// one + hidden x H + width x W + both x H x W: what a matrix with biases counts.
struct Bilinear {
  Wide one = 0, hidden = 0, width = 0, both = 0;

  Bilinear &operator+=(const Bilinear &other);
  // With H fixed: a line in W.
  Line at(Wide h) const { return {one + hidden * h, width + both * h}; }
  Wide operator()(Wide h, Wide w) const { return one + hidden * h + (width + both * h) * w; }
};

// Both lines of a choice of everything but the experts.
struct BudgetPair {
  Line params; // non-embedding parameters
  Line flops;  // training FLOPs per token
};

// Counts what the accounting counts, for any shape of one looped model: its formulas are sums of products of
// H, a width and the experts, so that their values at zeros and ones give every other. The accounting itself
// would take a hundred times as long.
class BudgetLines {
public:
  BudgetLines(const Baseline &baseline, const budget::Architecture &looped, budget::Attended attended);

  // Of the shape's heads; the rest of it plays no part.
  Wide kvElements(const Shape &shape) const;

  // Fixes heads, top_k and then hidden_size; pairs() is for what was fixed last.
  void fixHeads(const Shape &shape);
  void fixHidden(int64_t hidden_size, int64_t mlp_width);
  BudgetPair pairs(int64_t expert_hidden_size, int64_t shared_width) const {
    return {.params = {params_fixed + params_shared * shared_width,
                       params_expert.at + params_expert.per_expert * expert_hidden_size},
            .flops = {flops_fixed + flops_width * expert_hidden_size + flops_shared * shared_width,
                      flops_expert}};
  }

private:
  // Layers of one kind.
  struct Kind {
    budget::Layer layer;
    bool looped = false;
    int64_t stored = 0, executed = 0;
  };
  void addFfn(const Kind &kind);

  budget::Attended attended;
  std::vector<Kind> kinds;
  // Parameters by H and the width of an expert, of the shared ones, of the dense layers.
  Bilinear expert_params, shared_params, dense_params;
  // Matrix elements that a token is multiplied with: of the router for each expert, of each expert used, ...
  Bilinear router_matrices, used_matrices, shared_matrices, dense_matrices;

  int64_t top_k = 0;
  Line attention_params, attention_matrices; // in H
  Wide scores = 0;                           // FLOPs

  Line params_expert; // in F
  Wide params_fixed = 0, params_shared = 0;
  Wide flops_fixed = 0, flops_width = 0, flops_shared = 0, flops_expert = 0;
};

} // namespace smelt::planner
