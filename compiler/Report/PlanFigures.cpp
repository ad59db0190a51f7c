#include "compiler/Report/PlanFigures.h"

#include "compiler/Planner/Explain.h"
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

std::string segmentText(const spec::ModelSpec &spec, size_t index) {
  const spec::Segment &segment = spec.segments[index];
  const std::string range = layerRange(spec.firstLayer(index), segment.layers);
  return fmt::format("{} {}{}", segment.layers == 1 ? "layer" : "layers", range,
                     segment.ffn == spec::FfnKind::dense ? ", dense" : "");
}

std::string segmentDetail(const spec::ModelSpec &spec, size_t index) {
  const spec::Segment &segment = spec.segments[index];
  return fmt::format("{}: {} query heads, {} KV heads of {}; KV width {}", segmentText(spec, index),
                     segment.attention.query_heads, segment.attention.kv_heads, segment.attention.head_dim,
                     segment.attention.kvWidth());
}

// Input at the bottom, as models are usually drawn.
void drawStack(Svg &svg, const spec::ModelSpec &spec, double center, double widest) {
  const double width = kStackWidth * static_cast<double>(spec.hidden_size) / widest;
  const double layer_height = kStackHeight / static_cast<double>(spec.physicalLayers());
  const double bottom = 50 + kStackHeight;
  double y = bottom;
  for (size_t i = 0; i < spec.segments.size(); ++i) {
    const spec::Segment &segment = spec.segments[i];
    const bool loop = segment.visits > 1;
    const double height = layer_height * static_cast<double>(segment.layers);
    for (int64_t layer = 0; layer < segment.layers; ++layer) {
      y -= layer_height;
      svg.rect(center - width / 2, y + 1, width, layer_height - 2, loop ? "loop" : "once",
               segmentDetail(spec, i));
    }
    // Within the middle layer, not on the line between two.
    const double middle = y + layer_height * (static_cast<double>(segment.layers / 2) + 0.5);
    svg.text(center, middle + 4, segmentText(spec, i), "middle", "on-fill");
    if (loop) {
      const double right = center + width / 2;
      svg.path(fmt::format("M {0:.1f} {1:.1f} h 22 V {2:.1f} h -16 m 6 -5 l -7 5 l 7 5", right + 4, y + 6,
                           y + height - 6),
               "arrow", fmt::format("the loop runs {} times", segment.visits));
      svg.text(right + 32, y + height / 2 + 4, fmt::format("× {}", segment.visits));
    }
  }
  svg.text(center, 38, fmt::format("{} layers, {} executed", spec.physicalLayers(), spec.executedLayers()),
           "middle");
  svg.text(center, bottom + 20, fmt::format("hidden size {}", spec.hidden_size), "middle");
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
  return fmt::format("{}: worst difference {:.2f} %, shape distance {:.3f}, hardware misfit {}; hidden size "
                     "{}, head size {}, expert width {}, experts {}",
                     name, worstPercent(candidate, plan), candidate.shape_distance, candidate.fit.misfit(),
                     candidate.spec.hidden_size, candidate.spec.attention.head_dim,
                     candidate.spec.moe->expert_hidden_size, candidate.spec.moe->experts);
}

} // namespace

std::string stackFigure(const spec::ModelSpec &baseline, const planner::Plan &plan) {
  const spec::ModelSpec &looped = plan.pick.spec;
  const auto widest = static_cast<double>(std::max(baseline.hidden_size, looped.hidden_size));
  Svg svg(640, 400, fmt::format("Layers of {} and of {}", baseline.name, looped.name));
  svg.text(150, 18, baseline.name, "middle", "heading");
  svg.text(430, 18, looped.name, "middle", "heading");
  drawStack(svg, baseline, 150, widest);
  drawStack(svg, looped, 430, widest);
  return svg.str();
}

std::string budgetFigure(const spec::ModelSpec &baseline, const planner::Plan &plan) {
  const std::vector<planner::KnobStep> steps = planner::knobSteps(baseline, plan.pick, plan.attended);
  const double most = std::max({1.1, 1.05 + steps.front().residuals.worst()});
  Svg svg(680, 260, "Budgets in % of the baseline's");
  const Scale x(0, 100 * most, 190, 600);
  double y = 30;
  for (const MatchedField &field : matchedFields()) {
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
