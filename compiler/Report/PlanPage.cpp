#include "compiler/Report/PlanPage.h"

#include "compiler/Planner/Explain.h"
#include "compiler/Report/LatencyReport.h"
#include "compiler/Report/PlanFields.h"
#include "compiler/Report/PlanFigures.h"
#include "compiler/Report/PlanPrediction.h"
#include "compiler/Report/PlanTables.h"

#include <fmt/format.h>

namespace smelt::report {
namespace {

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1f24; --faint: #57606a; --rule: #d0d7de;
  --once: #7d8fa3; --loop: #c2570c; --on-fill: #ffffff; --before: #9aa7b5; --after: #c2570c;
  --fit0: #0b6e4f; --fit1: #6fae92; --fit2: #bcd8cb; --pick: #c2570c; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e6e9ed; --faint: #9aa4b0;
  --rule: #343a42; --once: #5b6b7d; --loop: #d9752b; --on-fill: #ffffff; --before: #66727f; --after: #e58a45;
  --fit0: #5fd3a6; --fit1: #3a8266; --fit2: #24513f; --pick: #ff9d57; } }
body { background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 60rem; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p, li { max-width: 46rem; } .note { color: var(--faint); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--rule); padding: .3rem .7rem; text-align: right; white-space: nowrap; }
th { font-weight: 600; } th[scope=row] { font-weight: 400; } .name { text-align: left; }
svg { display: block; height: auto; width: 100%; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .heading { font-size: 13px; font-weight: 600; } svg .on-fill { fill: var(--on-fill); }
.once { fill: var(--once); } .loop { fill: var(--loop); }
.before { fill: var(--before); } .after { fill: var(--after); }
.arrow { fill: none; stroke: var(--loop); stroke-width: 2; }
.axis { stroke: var(--faint); } .grid { stroke: var(--rule); stroke-width: .7; }
.point { stroke: var(--page); } .fit0 { fill: var(--fit0); } .fit1 { fill: var(--fit1); }
.fit2 { fill: var(--fit2); } .pick { fill: var(--pick); stroke: var(--page); }
.curve-before, .curve-after { fill: none; stroke-width: 2.2; }
.curve-before { stroke: var(--before); } .curve-after { stroke: var(--after); }
.dashed { stroke-dasharray: 5 4; }
)css";

std::string section(std::string_view title, const std::string &content, std::string_view note = "") {
  return fmt::format("<section>\n<h2>{}</h2>\n<div class=\"scroll\">\n{}</div>\n{}</section>\n",
                     escapeHtml(title), content,
                     note.empty() ? "" : fmt::format("<p class=\"note\">{}</p>\n", escapeHtml(note)));
}

std::string reasonList(const planner::Plan &plan) {
  std::string list = "<ul>\n";
  for (const std::string &reason : planner::pickReasons(plan)) {
    list += "<li>" + escapeHtml(reason) + "</li>\n";
  }
  return list + "</ul>\n";
}

std::string lawSection(const planner::Baseline &baseline, const planner::Plan &plan,
                       std::optional<double> tokens) {
  const std::optional<law::PairPrediction> prediction =
      tokens ? predictPlan(baseline, plan, *tokens) : std::nullopt;
  std::string content = lawFigure(baseline, plan, prediction ? &*prediction : nullptr);
  if (content.empty()) {
    return "";
  }
  std::string note = "Published laws of models without and with a loop, at the sparsity of these two; the "
                     "control of S is the baseline with as many experts as a token uses. Dashed: outside the "
                     "range the laws were fitted on, an extrapolation. For models of other data or "
                     "architecture the curves tell a tendency, not a loss.";
  if (prediction) {
    content += predictionTable(*prediction).html();
    note += " The dots are the two models trained on that many tokens.";
    for (const std::string &warning : predictionWarnings(*prediction, plan)) {
      note += " " + warning + ".";
    }
  }
  return section("Scaling laws", content, note);
}

std::string latencyNote(const planner::Plan &plan) {
  return plan.latency ? fmt::format("The predicted latency is that of a {} on {}: a roofline, not a "
                                    "measurement.",
                                    plan.latency->request.step.words(), requestText(plan.latency->request))
                      : "";
}

std::string frontSections(const planner::Plan &plan) {
  if (plan.front.empty()) {
    return "";
  }
  return section("Pareto front", frontFigure(plan),
                 "Matches that none betters in worst difference, shape distance and hardware misfit at once. "
                 "The pick weighs the sum of the differences and need not be among them.") +
         section("Points of the front", frontPoints(plan).html());
}

} // namespace

std::string planPage(const planner::Baseline &baseline, const planner::Plan &plan,
                     std::optional<double> tokens) {
  const std::string name = escapeHtml(plan.pick.architecture.name);
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n<p>A looped model with the budgets of {}: {}. FLOPs "
      "with {} attended positions.</p>\n",
      name, kStyle, name, escapeHtml(baseline.name()),
      escapeHtml(placementText(plan.placement, plan.pick.visits)), plan.attended.text());
  page += section("Stack", stackFigure(baseline, plan), "Input at the bottom.");
  page += section("Budgets", budgetFigure(baseline, plan) + budgetsTable(plan).html(), latencyNote(plan));
  page += section("Shape", shapesTable(baseline, plan).html(),
                  "Hardware misfit: factors of two missing in widths, plus per cent of padding.");
  page += section("Why this pick", reasonList(plan));
  page += section("What each knob paid", knobsTable(baseline, plan).html(),
                  "Changes of the budgets in % of the baseline's, one knob after another.");
  page += frontSections(plan) + lawSection(baseline, plan, tokens);
  return page + "</body>\n</html>\n";
}

} // namespace smelt::report
