#include "compiler/Planner/SearchUnits.h"

#include "compiler/Planner/BudgetLines.h"
#include "compiler/Spec/SpecValidator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace smelt::planner {
namespace {

class Units {
public:
  explicit Units(const SearchRequest &request)
      : request(request), reference(shapeOf(request.baseline->architecture)),
        query_heads(request.lattice.query_heads.values()), top_ks(request.lattice.top_k.values()) {}

  std::vector<Unit> list() {
    for (size_t i = 0; i < request.loops.size(); ++i) {
      const BudgetLines lines(*request.baseline, *request.loops[i].looped, request.attended);
      for (const KvChoice &kv : request.loops[i].kv_choices) {
        addChoice(i, kv, lines);
      }
    }
    const auto key = [](const Unit &unit) {
      return std::tuple(std::sqrt(unit.bound.squares) + kResidualWeight * unit.bound.sum, unit.loop,
                        unit.shape);
    };
    std::sort(units.begin(), units.end(), [&](const Unit &a, const Unit &b) { return key(a) < key(b); });
    return std::move(units);
  }

private:
  void addChoice(size_t loop, const KvChoice &kv, const BudgetLines &lines) {
    const int64_t wanted = request.target.kv_elements_per_token;
    Unit unit;
    unit.loop = loop;
    unit.shape = {.kv_heads = kv.kv_heads,
                  .looped_kv_heads = kv.looped_kv_heads,
                  .head_dim = kv.head_dim,
                  .kv_rank = kv.kv_rank,
                  .looped_kv_rank = kv.looped_kv_rank};
    unit.kv_residual =
        static_cast<double>(lines.kvElements(unit.shape) - wanted) / static_cast<double>(wanted);
    unit.bound.sum = unit.bound.worst = request.targets.kv_cache.weight * std::fabs(unit.kv_residual);
    unit.bound.misfit = missingHeadFactors(unit.shape);
    if (std::fabs(unit.kv_residual) > request.targets.kv_cache.tolerance) {
      return;
    }
    const int64_t together =
        std::lcm(std::max<int64_t>(kv.kv_heads, 1), std::max<int64_t>(kv.looped_kv_heads, 1));
    for (const int64_t heads : query_heads) {
      if (heads % together == 0 && heads * kv.head_dim <= spec::Limits::width) {
        unit.shape.query_heads = heads;
        addTopKs(unit);
      }
    }
  }

  void addTopKs(Unit unit) {
    const Loop &loop = request.loops[unit.loop];
    for (const int64_t top_k : top_ks) {
      unit.shape.top_k = top_k;
      unit.bound.squares =
          headSquares(unit.shape, reference, loop.visits) + squaredLog(loop.depth_ratio, 1.0);
      units.push_back(unit);
    }
  }

  const SearchRequest &request;
  const Shape reference;
  const std::vector<int64_t> query_heads, top_ks;
  std::vector<Unit> units;
};

} // namespace

std::vector<Unit> listUnits(const SearchRequest &request) { return Units(request).list(); }

} // namespace smelt::planner
