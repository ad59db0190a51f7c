#include "compiler/Law/LossPrediction.h"
#include "compiler/Law/PublishedLaws.h"
#include "compiler/Report/PlanFigures.h"
#include "compiler/Report/Svg.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::report {
namespace {

struct Curve {
  const law::ScalingLaw *law;
  double sparsity;
  const char *style;
  const char *label;
};

// A decade to either side of what the laws were fitted on.
constexpr double kLeast = 1e18;
constexpr double kMost = 1e23;
constexpr int kPoints = 100;

double computeAt(int index) { return kLeast * std::pow(kMost / kLeast, index / double(kPoints)); }

double lossAt(const Curve &curve, double compute) {
  return law::optimum(*curve.law, compute, curve.sparsity).loss;
}

// Solid where the law interpolates, dashed where it does not.
void drawCurve(Svg &svg, const Curve &curve, const Scale &x, const Scale &y) {
  std::vector<std::pair<double, double>> part;
  bool inside = false;
  for (int i = 0; i <= kPoints; ++i) {
    const double compute = computeAt(i);
    const bool now = law::outsideFrontier(*curve.law, compute, curve.sparsity).empty();
    const std::pair<double, double> point(x(compute), y(lossAt(curve, compute)));
    if (i > 0 && now != inside) {
      svg.polyline(part, fmt::format("{}{}", curve.style, inside ? "" : " dashed"));
      part.erase(part.begin(), part.end() - 1);
    }
    inside = now;
    part.push_back(point);
  }
  svg.polyline(part, fmt::format("{}{}", curve.style, inside ? "" : " dashed"));
}

// A model outside the picture is left out; the table has it.
void drawDot(Svg &svg, const law::LossPrediction &prediction, const char *style, const Scale &x,
             const Scale &y) {
  const double compute = prediction.run.trainingFlops();
  const double at = y(prediction.loss);
  if (compute >= kLeast && compute <= kMost && at >= 20 && at <= 320) {
    svg.circle(x(compute), at, 5, style,
               fmt::format("law \"{}\": {:.3g} training FLOPs, loss {:.4f}", prediction.law->name, compute,
                           prediction.loss));
  }
}

} // namespace

std::string lawFigure(const planner::Baseline &baseline, const planner::Plan &plan,
                      const law::PairPrediction *prediction) {
  const budget::BudgetResult control =
      budget::computeBudget(law::fullyActiveControl(baseline.architecture), plan.attended);
  if (!control) {
    return "";
  }
  const Curve curves[] = {
      {&law::baselineLaw(), law::sparsity(plan.baseline, *control.budget), "curve-before", "baseline"},
      {&law::loopedLaw(), law::sparsity(plan.pick.budget, *control.budget), "curve-after", "plan"}};
  double low = 1e9;
  double high = 0;
  for (const Curve &curve : curves) {
    if (curve.sparsity < 0 || curve.sparsity >= 1) {
      return "";
    }
    low = std::min(low, lossAt(curve, kMost));
    high = std::max(high, lossAt(curve, kLeast));
  }
  Svg svg(680, 380, "Loss of compute-optimal models by the published scaling laws");
  const Scale x(kLeast, kMost, 60, 660, true);
  const Scale y(low - 0.02, high + 0.02, 320, 20);
  for (const double tick : x.ticks(6)) {
    svg.line(x(tick), 20, x(tick), 320, "grid");
    svg.text(x(tick), 336, fmt::format("{:.0e}", tick), "middle");
  }
  for (const double tick : y.ticks(6)) {
    svg.line(60, y(tick), 660, y(tick), "grid");
    svg.text(54, y(tick) + 4, fmt::format("{:g}", tick), "end");
  }
  svg.text(360, 356, "training FLOPs", "middle");
  svg.text(60, 12, "loss, nats per token");
  double at = 70;
  for (const Curve &curve : curves) {
    drawCurve(svg, curve, x, y);
    svg.line(at, 370, at + 24, 370, curve.style);
    svg.text(at + 30, 374,
             fmt::format("{}, S = {:.1f} %, law \"{}\"", curve.label, 100 * curve.sparsity, curve.law->name));
    at += 290;
  }
  if (prediction) {
    drawDot(svg, prediction->baseline, "once", x, y);
    drawDot(svg, prediction->looped, "loop", x, y);
  }
  return svg.str();
}

} // namespace smelt::report
