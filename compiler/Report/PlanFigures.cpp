#include "compiler/Report/PlanFigures.h"

#include "compiler/Planner/Explain.h"
#include "compiler/Planner/Infeasible.h"
#include "compiler/Report/PlanFields.h"
#include "compiler/Report/Svg.h"
#include "compiler/Report/Table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::report {
namespace {

using planner::Candidate;

constexpr double kStackWidth = 200; // of the wider model
constexpr double kStackHeight = 320;

bool isDense(const budget::LayerGroup &group) {
  return std::holds_alternative<budget::DenseMlp>(group.layer.ffn);
}

// Neighbours that run as often and have the same kind of FFN: alternating attention is one stretch.
struct Stretch {
  std::vector<const budget::LayerGroup *> groups = {};
  int64_t first = 0;
  int64_t layers = 0;

  bool takes(const budget::LayerGroup &group) const {
    return !groups.empty() && groups.back()->visits == group.visits &&
           isDense(*groups.back()) == isDense(group);
  }
  std::string text() const {
    return fmt::format("{} {}{}", layers == 1 ? "layer" : "layers", layerRange(first, layers),
                       isDense(*groups.front()) ? ", dense" : "");
  }
};

std::vector<Stretch> stretchesOf(const budget::Architecture &model) {
  std::vector<Stretch> stretches;
  int64_t first = 0;
  for (const budget::LayerGroup &group : model.groups) {
    if (stretches.empty() || !stretches.back().takes(group)) {
      stretches.push_back({.first = first});
    }
    stretches.back().groups.push_back(&group);
    stretches.back().layers += group.layers;
    first += group.layers;
  }
  return stretches;
}

std::string attentionDetail(const budget::GroupedAttention &a) {
  return fmt::format("{} query heads, {} KV heads of {}; KV width {}", a.query_heads, a.kv_heads, a.head_dim,
                     a.kv_heads * a.head_dim);
}
std::string attentionDetail(const budget::LatentAttention &a) {
  return fmt::format("{} latent heads; a cache of {} + {}", a.heads, a.kv_rank, a.rope_dim);
}
std::string attentionDetail(const budget::LinearAttention &a) {
  return fmt::format("linear attention of {} value heads", a.value_heads);
}

std::string groupDetail(const Stretch &stretch, const budget::LayerGroup &group) {
  std::string text = stretch.text() + ": " +
                     std::visit([](const auto &a) { return attentionDetail(a); }, group.layer.attention);
  if (group.layer.reach != budget::Reach::full) {
    text += fmt::format(", {} {}", group.layer.reach == budget::Reach::sliding ? "within" : "in chunks of",
                        group.layer.window);
  }
  return text;
}

// Input at the bottom, as models are usually drawn.
void drawStack(Svg &svg, const budget::Architecture &model, double center, double widest) {
  constexpr double kLegible = 12; // high enough for a line of text
  const double width = kStackWidth * static_cast<double>(model.hidden_size) / widest;
  const int64_t layers = planner::physicalLayers(model);
  const double layer_height = kStackHeight / static_cast<double>(layers);
  const double bottom = 50 + kStackHeight;
  double y = bottom;
  int64_t executed = 0;
  for (const Stretch &stretch : stretchesOf(model)) {
    const int64_t visits = stretch.groups.front()->visits;
    const bool loop = visits > 1;
    const double height = layer_height * static_cast<double>(stretch.layers);
    executed += stretch.layers * visits;
    for (const budget::LayerGroup *group : stretch.groups) {
      for (int64_t layer = 0; layer < group->layers; ++layer) {
        y -= layer_height;
        svg.rect(center - width / 2, y + 1, width, std::max(1.0, layer_height - 2), loop ? "loop" : "once",
                 groupDetail(stretch, *group));
      }
    }
    // Within the middle layer, not on the line between two.
    const double middle = y + layer_height * (static_cast<double>(stretch.layers / 2) + 0.5);
    if (height >= kLegible) {
      svg.text(center, middle + 4, stretch.text(), "middle", "on-fill");
    }
    if (loop) {
      const double right = center + width / 2;
      svg.path(fmt::format("M {0:.1f} {1:.1f} h 22 V {2:.1f} h -16 m 6 -5 l -7 5 l 7 5", right + 4, y + 6,
                           y + height - 6),
               "arrow", fmt::format("the loop runs {} times", visits));
      svg.text(right + 32, y + height / 2 + 4, fmt::format("× {}", visits));
    }
  }
  svg.text(center, 38, fmt::format("{} layers, {} executed", layers, executed), "middle");
  svg.text(center, bottom + 20, fmt::format("hidden size {}", model.hidden_size), "middle");
}

struct Frame {
  double left = 60, top = 20, right = 660, bottom = 320;
};

void drawAxes(Svg &svg, const Frame &frame, const Scale &x, const Scale &y, const std::string &x_label,
              const std::string &y_label) {
  for (const double tick : x.ticks(6)) {
    svg.line(x(tick), frame.top, x(tick), frame.bottom, "grid");
    svg.text(x(tick), frame.bottom + 16, fmt::format("{:g}", tick), "middle");
  }
  for (const double tick : y.ticks(6)) {
    svg.line(frame.left, y(tick), frame.right, y(tick), "grid");
    svg.text(frame.left - 6, y(tick) + 4, fmt::format("{:g}", tick), "end");
  }
  svg.line(frame.left, frame.bottom, frame.right, frame.bottom, "axis");
  svg.line(frame.left, frame.top, frame.left, frame.bottom, "axis");
  svg.text((frame.left + frame.right) / 2, frame.bottom + 36, x_label, "middle");
  svg.text(frame.left, frame.top - 8, y_label, "start");
}

double worstPercent(const Candidate &candidate, const planner::Plan &plan) {
  // A logarithmic axis has no zero; the front does not tell smaller differences apart anyway.
  return 100 * std::max(candidate.residuals.worst(plan.targets), planner::kResidualStep);
}

std::string pointTooltip(const std::string &name, const Candidate &candidate, const planner::Plan &plan) {
  return fmt::format("{}: worst difference {:.2f} %, shape distance {:.3f}, hardware misfit {}; {}", name,
                     worstPercent(candidate, plan), candidate.shape_distance, candidate.fit.misfit(),
                     planner::shapeText(candidate.shape, false));
}

} // namespace

std::string stackFigure(const planner::Baseline &baseline, const planner::Plan &plan) {
  const budget::Architecture &looped = plan.pick.architecture;
  const auto widest = static_cast<double>(std::max(baseline.architecture.hidden_size, looped.hidden_size));
  Svg svg(640, 400, fmt::format("Layers of {} and of {}", baseline.name(), looped.name));
  svg.text(150, 18, baseline.name(), "middle", "heading");
  svg.text(430, 18, looped.name, "middle", "heading");
  drawStack(svg, baseline.architecture, 150, widest);
  drawStack(svg, looped, 430, widest);
  return svg.str();
}

std::string budgetFigure(const planner::Baseline &baseline, const planner::Plan &plan) {
  const std::vector<planner::KnobStep> steps =
      planner::knobSteps(baseline, plan.pick, plan.attended, plan.latency);
  const double most = std::max({1.1, 1.05 + steps.front().residuals.worst(),
                                1.05 + steps.front().residuals.latency, 1.05 + plan.pick.residuals.latency});
  const std::span<const MatchedField> fields = matchedFields(plan);
  Svg svg(680, 86 + 58 * static_cast<double>(fields.size()), "Budgets in % of the baseline's");
  const Scale x(0, 100 * most, 190, 600);
  double y = 30;
  for (const MatchedField &field : fields) {
    svg.text(180, y + 20, field.label, "end");
    const std::pair<const char *, const planner::Residuals *> bars[] = {{"before", &steps.front().residuals},
                                                                        {"after", &plan.pick.residuals}};
    for (const auto &[style, residuals] : bars) {
      const double value = 100 * (1 + residuals->*field.residual);
      svg.rect(x(0), y, x(value) - x(0), 16, style, fmt::format("{}: {:.2f} %", field.label, value));
      svg.text(x(value) + 6, y + 13, fmt::format("{:.2f} %", value));
      y += 18;
    }
    y += 22;
  }
  svg.line(x(100), 20, x(100), y - 10, "axis");
  svg.text(x(100), 14, "baseline", "middle");
  svg.rect(190, y, 12, 12, "before");
  svg.text(208, y + 11, "looped, shape as in the baseline");
  svg.rect(430, y, 12, 12, "after");
  svg.text(448, y + 11, "plan");
  return svg.str();
}

std::string frontFigure(const planner::Plan &plan) {
  double nearest = worstPercent(plan.pick, plan);
  double farthest = nearest;
  double distance = plan.pick.shape_distance;
  int64_t misfit = 1;
  for (const Candidate &candidate : plan.front) {
    nearest = std::min(nearest, worstPercent(candidate, plan));
    farthest = std::max(farthest, worstPercent(candidate, plan));
    distance = std::max(distance, candidate.shape_distance);
    misfit = std::max(misfit, candidate.fit.misfit());
  }
  const Frame frame;
  Svg svg(680, 400, "The Pareto front");
  const Scale x(0, distance * 1.05 + 1e-3, frame.left, frame.right);
  const Scale y(nearest / 1.3, farthest * 1.3, frame.bottom, frame.top, true);
  drawAxes(svg, frame, x, y, "shape distance from the baseline", "worst difference, %");
  for (size_t i = 0; i < plan.front.size(); ++i) {
    const Candidate &candidate = plan.front[i];
    // Three shades: the best, middle and worst third of the misfits.
    const int64_t third = std::min<int64_t>(2, 3 * candidate.fit.misfit() / (misfit + 1));
    svg.circle(x(candidate.shape_distance), y(worstPercent(candidate, plan)), 5,
               fmt::format("point fit{}", third),
               pointTooltip(fmt::format("front-{}", i + 1), candidate, plan));
  }
  const double px = x(plan.pick.shape_distance);
  const double py = y(worstPercent(plan.pick, plan));
  svg.path(fmt::format("M {0:.1f} {1:.1f} l 9 9 l -9 9 l -9 -9 z", px, py - 9), "pick",
           pointTooltip("pick", plan.pick, plan));
  const double legend = frame.bottom + 62;
  svg.path(fmt::format("M 70 {:.1f} l 7 7 l -7 7 l -7 -7 z", legend - 11), "pick");
  svg.text(84, legend, "pick");
  double at = 150;
  for (const auto &[style, label] : {std::pair("point fit0", "fits hardware best"),
                                     std::pair("point fit1", "less"), std::pair("point fit2", "least")}) {
    svg.circle(at, legend - 4, 5, style);
    svg.text(at + 10, legend, label);
    at += 30 + 7 * static_cast<double>(std::string_view(label).size());
  }
  return svg.str();
}

} // namespace smelt::report
