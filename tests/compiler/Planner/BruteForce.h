// Searches by visiting every point of a small lattice and counting the budgets of its spec.
#pragma once

#include "compiler/Planner/ShapeSearch.h"

#include <vector>

namespace smelt::tests {

// Every point of the lattice, judged; no matter whether it is within tolerance.
std::vector<planner::RankedShape> everyPoint(const planner::SearchRequest &request);

// The best point and the nearest one: at most one each.
std::vector<planner::RankedShape> bruteBest(const planner::SearchRequest &request);
std::vector<planner::RankedShape> bruteNearest(const planner::SearchRequest &request);
std::vector<planner::RankedShape> bruteFront(const planner::SearchRequest &request);

// A baseline with every kind of layer, bias and norm, and one with nothing but experts.
spec::ModelSpec mixedBaseline();
spec::ModelSpec plainBaseline();

// Mixtures of experts that no spec can express: latent attention behind a dense layer, with shared experts as
// wide as the routed ones and multi-token prediction; windows in every other layer, sinks and all biases;
// gated shared experts of their own width, with three layers of linear attention for each full one.
planner::Baseline latentBaseline();
planner::Baseline windowBaseline();
planner::Baseline gatedBaseline();

} // namespace smelt::tests
