// The budgets of a looped model as straight lines in the number of experts, in exact integers.
#pragma once

#include "compiler/Budget/Attended.h"
#include "compiler/Planner/Shape.h"

#include <cstdint>

namespace smelt::planner {

// Products of valid specs' dimensions, layers, visits and attended positions stay below 2^127.
using Wide = __int128;

// at + per_expert x experts
struct Line {
  Wide at = 0;
  Wide per_expert = 0;

  Wide operator()(int64_t experts) const { return at + per_expert * experts; }
};

Wide floorDivide(Wide a, Wide b);

// Counts what computeBudget() counts, for any shape of one looped model.
class BudgetLines {
public:
  BudgetLines(const spec::ModelSpec &baseline, const spec::ModelSpec &looped, budget::Attended attended);

  // Of the non-embedding parameters and of the training FLOPs per token; the shape's experts play no part.
  Line params(const Shape &shape) const;
  Line trainingFlops(const Shape &shape) const;
  Wide kvElements(int64_t kv_heads, int64_t looped_kv_heads, int64_t head_dim) const;
  // Layers with experts: without any, the lines are flat.
  int64_t moeLayers() const { return moe_stored; }

private:
  // Layers of one KV width.
  struct Group {
    int64_t stored = 0, executed = 0;
    int64_t biased = 0, per_head_norm = 0, full_width_norm = 0;

    void add(const spec::Segment &segment);
    Wide params(Wide hidden, Wide query, Wide kv, Wide head_dim) const;
  };

  const spec::ModelSpec &baseline;
  budget::Attended attended;
  Group once, looped;
  int64_t moe_stored = 0, moe_executed = 0;
  int64_t dense_stored = 0, dense_executed = 0;
};

} // namespace smelt::planner
