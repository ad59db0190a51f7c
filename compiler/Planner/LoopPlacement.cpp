#include "compiler/Planner/LoopPlacement.h"

#include "compiler/Spec/SpecNames.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using spec::ModelSpec;
using spec::Segment;

// The names of the fields in which two segments differ, but for how many layers they have.
std::string differences(const Segment &a, const Segment &b) {
  std::string names;
  const auto note = [&](bool differs, const char *name) {
    names += differs ? (names.empty() ? "" : ", ") + std::string(name) : "";
  };
  note(a.residual_scale != b.residual_scale, "residual_scale");
  note(a.kv_cache != b.kv_cache, "kv_cache");
  note(a.ffn != b.ffn, "ffn");
  note(a.attention != b.attention, "attention");
  return names;
}

// Appends `layers` layers of the kind of `segment`, if any.
void append(std::vector<Segment> &segments, Segment segment, int64_t layers) {
  if (layers == 0) {
    return;
  }
  segment.layers = layers;
  segments.push_back(segment);
}

// The layers [begin, end) of the baseline, as segments.
std::vector<Segment> slice(const ModelSpec &baseline, int64_t begin, int64_t end) {
  std::vector<Segment> result;
  for (size_t i = 0; i < baseline.segments.size(); ++i) {
    const int64_t first = baseline.firstLayer(i);
    const int64_t last = first + baseline.segments[i].layers;
    append(result, baseline.segments[i], std::max<int64_t>(0, std::min(end, last) - std::max(begin, first)));
  }
  return result;
}

} // namespace

std::optional<LoopPlacement> placeLoop(int64_t layers, double span) {
  if (!(span > 0.0) || span > 1.0) {
    return std::nullopt;
  }
  const auto looped = static_cast<int64_t>(std::llround(span * static_cast<double>(layers)));
  if (looped < 1) {
    return std::nullopt;
  }
  const int64_t prelude = (layers - looped) / 2;
  return LoopPlacement{prelude, looped, layers - looped - prelude};
}

LoopedResult withLayers(const ModelSpec &baseline, int64_t layers) {
  for (const Segment &other : baseline.segments) {
    if (const std::string names = differences(baseline.segments.front(), other); !names.empty()) {
      return {
          std::nullopt,
          fmt::format("layers cannot be free: the baseline's layers differ in {}, and which of them there "
                      "should be more of is not known; pin layers to {}",
                      names, baseline.physicalLayers())};
    }
  }
  LoopedResult result{baseline, ""};
  result.spec->segments.resize(1);
  result.spec->segments.front().layers = layers;
  return result;
}

LoopedResult loopMiddle(const ModelSpec &baseline, double span, int64_t visits) {
  for (size_t i = 0; i < baseline.segments.size(); ++i) {
    if (baseline.segments[i].visits != 1) {
      return {std::nullopt,
              fmt::format("the baseline already loops: segment {} has visits = {}; start from a model "
                          "without loops",
                          i + 1, baseline.segments[i].visits)};
    }
  }
  const int64_t layers = baseline.physicalLayers();
  const std::optional<LoopPlacement> placement = placeLoop(layers, span);
  if (!placement) {
    return {std::nullopt,
            fmt::format("a span of {} of {} layers has no layer; it must be more than 0, at most 1 and "
                        "reach at least one layer",
                        span, layers)};
  }
  const int64_t end = placement->prelude + placement->looped;
  const std::vector<Segment> looped = slice(baseline, placement->prelude, end);
  for (const Segment &other : looped) {
    if (const std::string names = differences(looped.front(), other); !names.empty()) {
      return {std::nullopt,
              fmt::format("the span, layers {} to {}, crosses layers that differ in {}; a looped segment "
                          "has layers of one kind: choose another span",
                          placement->prelude, end - 1, names)};
    }
  }
  LoopedResult result{baseline, ""};
  Segment loop = looped.front();
  loop.visits = visits;
  loop.order = spec::VisitOrder::block;
  loop.residual_scale /= static_cast<double>(visits);
  result.spec->segments = slice(baseline, 0, placement->prelude);
  append(result.spec->segments, loop, placement->looped);
  for (const Segment &segment : slice(baseline, end, layers)) {
    result.spec->segments.push_back(segment);
  }
  return result;
}

} // namespace smelt::planner
