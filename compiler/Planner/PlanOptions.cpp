#include "compiler/Planner/PlanOptions.h"

#include "compiler/Spec/SpecValidator.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace smelt::planner {
namespace {

using spec::Limits;

std::string checkVisits(int64_t visits) {
  return visits < 2 || visits > Limits::visits
             ? fmt::format("visits must be from 2 to {}, not {}", Limits::visits, visits)
             : "";
}

std::string checkSpan(double span) {
  return !(span > 0.0) || span > 1.0 ? fmt::format("span must be more than 0 and at most 1, not {}", span)
                                     : "";
}

std::string checkTargets(const PlanOptions &options) {
  if (!options.targets && (!(options.tolerance >= 0.0) || options.tolerance >= 1.0)) {
    return fmt::format("tolerance must be at least 0 and less than 1, not {}", options.tolerance);
  }
  const Targets targets = options.effectiveTargets();
  if (targets.askForLatency() && !options.latency) {
    return "a target of the predicted latency needs a device to predict it for";
  }
  for (const auto &[name, target] :
       {std::pair("training FLOPs", targets.training_flops),
        std::pair("non-embedding parameters", targets.non_embedding_params),
        std::pair("the KV cache", targets.kv_cache), std::pair("the predicted latency", targets.latency)}) {
    if (!(target.tolerance >= 0.0)) {
      return fmt::format("the tolerance of {} must be at least 0, not {}", name, target.tolerance);
    }
    if (!(target.weight >= 0.0) || target.weight > 1e6) {
      return fmt::format("the weight of {} must be from 0 to 1000000, not {}", name, target.weight);
    }
  }
  return "";
}

std::string checkLatticeValues(std::string_view name, const Lattice &lattice, int64_t limit) {
  if (lattice.multiple_of && (*lattice.multiple_of < 1 || *lattice.multiple_of > limit)) {
    return fmt::format("the step of {} must be from 1 to {}, not {}", name, limit, *lattice.multiple_of);
  }
  std::vector<int64_t> values = lattice.list;
  values.push_back(lattice.min.value_or(1));
  values.push_back(lattice.max.value_or(1));
  for (const int64_t value : values) {
    if (value < 1 || value > limit) {
      return fmt::format("{} must be from 1 to {}, not {}", name, limit, value);
    }
  }
  return "";
}

std::string checkList(std::string_view what, const std::vector<int64_t> &values, int64_t limit) {
  for (const int64_t value : values) {
    if (value < 1 || value > limit) {
      return fmt::format("{} must be from 1 to {}, not {}", what, limit, value);
    }
  }
  return "";
}

// RoPE turns pairs.
std::string checkHeadDim(const Lattice &head_dim) {
  for (const int64_t dim : head_dim.list) {
    if (dim % 2 != 0) {
      return fmt::format("head_dim must be even for RoPE, not {}", dim);
    }
  }
  return "";
}

std::string firstOf(std::initializer_list<std::string> errors) {
  for (const std::string &error : errors) {
    if (!error.empty()) {
      return error;
    }
  }
  return "";
}

Axis listAxis(std::vector<int64_t> values) { return Lattice{.list = std::move(values)}.resolve({}); }

std::vector<KvChoice> rankChoicesFor(const Baseline &baseline, const PlanOptions &options, int64_t visits) {
  const int64_t head_dim = shapeOf(baseline.architecture).head_dim;
  const Axis kv_rank = kvRankFor(baseline, options);
  if (options.geometry == Geometry::uniform) {
    return rankChoices(kv_rank, kSameRank, head_dim);
  }
  if (!options.looped_kv_ranks.empty()) {
    return rankChoices(kv_rank, listAxis(options.looped_kv_ranks), head_dim);
  }
  std::vector<KvChoice> choices;
  for (const budget::LayerGroup &group : baseline.architecture.groups) {
    if (const auto *latent = std::get_if<budget::LatentAttention>(&group.layer.attention)) {
      choices = exactRankChoices(latent->kv_rank, latent->rope_dim, visits, head_dim);
      break;
    }
  }
  std::erase_if(choices,
                [&](const KvChoice &choice) { return kv_rank.atOrBelow(choice.kv_rank) != choice.kv_rank; });
  return choices;
}

// Options that name what the baseline's attention does not have.
std::string checkAttentionKind(bool latent, const PlanOptions &options) {
  if (latent) {
    const bool heads = !options.kv_heads.empty() || !options.looped_kv_heads.empty();
    return heads || !options.head_dim.isDefault()
               ? fmt::format("{} cannot be chosen: the baseline has latent attention, which keeps the sizes "
                             "of its heads and caches a rank; choose kv_rank or looped_kv_rank",
                             heads ? "KV heads" : "head_dim")
               : "";
  }
  return options.kv_rank.isDefault() && options.looped_kv_ranks.empty()
             ? ""
             : "a KV rank cannot be chosen: the baseline's attention is not latent; choose kv_heads or "
               "head_dim";
}

std::string checkMultiples(std::string_view name, const Lattice &lattice, int64_t step,
                           std::string_view why) {
  for (const int64_t value : lattice.list) {
    if (value % step != 0) {
      return fmt::format("{} must be a multiple of {}, not {}: {}", name, step, value, why);
    }
  }
  return "";
}

} // namespace

std::string_view geometryName(Geometry geometry) {
  return geometry == Geometry::uniform ? "uniform" : "per_segment";
}

std::optional<Geometry> parseGeometry(std::string_view name) {
  for (const Geometry geometry : {Geometry::uniform, Geometry::per_segment}) {
    if (name == geometryName(geometry)) {
      return geometry;
    }
  }
  return std::nullopt;
}

std::string checkOptions(const PlanOptions &options) {
  std::string error = firstOf({checkVisits(options.visits), checkSpan(options.span), checkTargets(options)});
  for (const int64_t visits : options.visit_counts) {
    error = firstOf({error, checkVisits(visits)});
  }
  for (const double span : options.spans) {
    error = firstOf({error, checkSpan(span)});
  }
  if (options.geometry == Geometry::uniform && !options.looped_kv_heads.empty()) {
    error =
        firstOf({error, "looped_kv_heads needs the per_segment geometry: in the uniform one, looped layers "
                        "have the KV heads of the others"});
  }
  if (options.geometry == Geometry::uniform && !options.looped_kv_ranks.empty()) {
    error =
        firstOf({error, "looped_kv_rank needs the per_segment geometry: in the uniform one, looped layers "
                        "have the KV rank of the others"});
  }
  return firstOf({error, checkLatticeValues("hidden_size", options.hidden_size, Limits::width),
                  checkLatticeValues("head_dim", options.head_dim, Limits::head_dim),
                  checkHeadDim(options.head_dim),
                  checkLatticeValues("expert_hidden_size", options.expert_hidden_size, Limits::width),
                  checkLatticeValues("experts", options.experts, Limits::experts),
                  checkLatticeValues("query_heads", options.query_heads, Limits::heads),
                  checkList("a number of KV heads", options.kv_heads, Limits::heads),
                  checkList("a number of looped KV heads", options.looped_kv_heads, Limits::heads),
                  checkLatticeValues("kv_rank", options.kv_rank, Limits::width),
                  checkList("a looped KV rank", options.looped_kv_ranks, Limits::width),
                  checkList("top_k", options.top_k, Limits::experts),
                  checkList("layers", options.layers, Limits::layers)});
}

Axis kvHeadsFor(const Baseline &baseline, const PlanOptions &options) {
  return listAxis(options.kv_heads.empty() ? std::vector{shapeOf(baseline.architecture).kv_heads}
                                           : options.kv_heads);
}

Axis headDimFor(const Baseline &baseline, const PlanOptions &options) {
  const Shape from = shapeOf(baseline.architecture);
  const int64_t fewest = std::max<int64_t>(1, kvHeadsFor(baseline, options).first());
  const int64_t widest = (2 * from.kv_heads * from.head_dim + fewest - 1) / fewest;
  Axis axis = options.head_dim.resolve({2, 2, std::min(widest, Limits::head_dim)});
  axis.step = std::lcm(axis.step, baseline.head_dim_step);
  return axis;
}

Axis kvRankFor(const Baseline &baseline, const PlanOptions &options) {
  const int64_t rank = shapeOf(baseline.architecture).kv_rank;
  return options.kv_rank.resolve(options.geometry == Geometry::uniform
                                     ? Axis{8, 8, std::min(2 * rank, Limits::width)}
                                     : Axis{1, rank, rank});
}

ShapeLattice latticeFor(const Baseline &baseline, const PlanOptions &options) {
  const Shape from = shapeOf(baseline.architecture);
  const bool latent = from.kv_rank > 0;
  const int64_t heads = 4 * std::max(from.query_heads, latent ? 0 : kvHeadsFor(baseline, options).last());
  ShapeLattice lattice;
  lattice.hidden_size = options.hidden_size.resolve(
      {8, (from.hidden_size + 3) / 4, std::min(2 * from.hidden_size, Limits::width)});
  lattice.expert_hidden_size = options.expert_hidden_size.resolve(
      {8, (from.expert_hidden_size + 7) / 8, std::min(2 * from.expert_hidden_size, Limits::width)});
  lattice.top_k = listAxis(options.top_k.empty() ? std::vector{from.top_k} : options.top_k);
  lattice.experts =
      options.experts.resolve({1, lattice.top_k.first(), std::min(16 * from.experts, Limits::experts)});
  lattice.experts.step = std::lcm(lattice.experts.step, baseline.experts_step);
  // Heads of latent attention share nothing that would give them a step: devices they are split over do.
  lattice.query_heads = options.query_heads.resolve(
      {latent ? std::gcd(from.query_heads, int64_t{8}) : 1, 1, std::min(heads, Limits::heads)});
  return lattice;
}

std::vector<KvChoice> kvChoicesFor(const Baseline &baseline, const PlanOptions &options, int64_t visits) {
  const Shape from = shapeOf(baseline.architecture);
  if (from.kv_rank > 0) {
    return rankChoicesFor(baseline, options, visits);
  }
  const Axis kv_heads = kvHeadsFor(baseline, options);
  const Axis head_dim = headDimFor(baseline, options);
  if (options.geometry == Geometry::uniform) {
    return uniformKvChoices(kv_heads, head_dim);
  }
  if (!options.looped_kv_heads.empty()) {
    return perSegmentKvChoices(kv_heads, listAxis(options.looped_kv_heads), head_dim);
  }
  std::vector<KvChoice> choices = exactKvChoices(from.kv_heads * from.head_dim, visits, head_dim);
  if (!options.kv_heads.empty()) {
    std::erase_if(choices, [&](const KvChoice &choice) {
      return kv_heads.atOrBelow(choice.kv_heads) != choice.kv_heads;
    });
  }
  return choices;
}

std::string checkLattice(const Baseline &baseline, const PlanOptions &options) {
  const bool latent = shapeOf(baseline.architecture).kv_rank > 0;
  const ShapeLattice lattice = latticeFor(baseline, options);
  const Axis kv = latent ? kvRankFor(baseline, options) : headDimFor(baseline, options);
  std::string error = firstOf(
      {checkAttentionKind(latent, options),
       checkMultiples("head_dim", options.head_dim, baseline.head_dim_step, "RoPE turns that part of a head"),
       checkMultiples("experts", options.experts, baseline.experts_step,
                      "the model routes within so many groups of experts")});
  for (const auto &[name, axis] :
       {std::pair("hidden_size", &lattice.hidden_size), std::pair(latent ? "kv_rank" : "head_dim", &kv),
        std::pair("expert_hidden_size", &lattice.expert_hidden_size), std::pair("experts", &lattice.experts),
        std::pair("query_heads", &lattice.query_heads)}) {
    if (axis->empty()) {
      error = firstOf({error, fmt::format("the lattice of {} has no point ({}): widen its range, or take a "
                                          "smaller step",
                                          name, axis->text())});
    }
  }
  return error;
}

} // namespace smelt::planner
