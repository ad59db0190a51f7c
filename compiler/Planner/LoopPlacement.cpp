#include "compiler/Planner/LoopPlacement.h"

#include "compiler/Spec/SpecNames.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::planner {
namespace {

using budget::LayerGroup;
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

std::string emptySpan(double span, int64_t layers) {
  return fmt::format("a span of {} of {} layers has no layer; it must be more than 0, at most 1 and reach at "
                     "least one layer",
                     span, layers);
}

LoopedModel refuse(std::string error) { return {.architecture = std::nullopt, .error = std::move(error)}; }

// Dense layers at the beginning of a model that has none later.
int64_t densePrefix(const budget::Architecture &architecture) {
  int64_t prefix = 0;
  bool experts = false;
  for (const budget::LayerGroup &group : architecture.groups) {
    const bool dense = std::holds_alternative<budget::DenseMlp>(group.layer.ffn);
    if (dense && experts) {
      return 0;
    }
    experts = experts || !dense;
    prefix += dense ? group.layers : 0;
  }
  return prefix;
}

// The layers [begin, end), visited so often.
void appendSlice(std::vector<LayerGroup> &result, const budget::Architecture &baseline, int64_t begin,
                 int64_t end, int64_t visits) {
  int64_t first = 0;
  for (LayerGroup group : baseline.groups) {
    const int64_t last = first + group.layers;
    group.layers = std::min(end, last) - std::max(begin, first);
    group.visits = visits;
    group.looped = visits > 1;
    if (group.layers > 0) {
      result.push_back(group);
    }
    first = last;
  }
}

LoopedModel loopLayers(const budget::Architecture &baseline, double span, int64_t visits) {
  const int64_t layers = physicalLayers(baseline);
  const std::optional<LoopPlacement> placement = placeLoop(layers, span);
  if (!placement) {
    return refuse(emptySpan(span, layers));
  }
  if (const int64_t dense = densePrefix(baseline); placement->prelude < dense) {
    return refuse(fmt::format(
        "the span, layers {} to {}, reaches into the first {} layers, which are dense and stay unlooped: "
        "choose a span of at most {:.3g}",
        placement->prelude, placement->prelude + placement->looped - 1, dense,
        std::max(0.0, 1 - 2 * static_cast<double>(dense) / static_cast<double>(layers))));
  }
  LoopedModel result{.architecture = baseline};
  const int64_t end = placement->prelude + placement->looped;
  std::vector<LayerGroup> groups;
  appendSlice(groups, baseline, 0, placement->prelude, 1);
  appendSlice(groups, baseline, placement->prelude, end, visits);
  appendSlice(groups, baseline, end, layers, 1);
  result.architecture->groups = std::move(groups);
  return result;
}

LoopedModel loopArchitecture(budget::Architecture baseline, int64_t layers, double span, int64_t visits) {
  if (const std::string error = checkUnlooped(baseline); !error.empty()) {
    return refuse(error);
  }
  if (layers != physicalLayers(baseline)) {
    if (baseline.groups.size() > 1) {
      return refuse(fmt::format(
          "layers cannot be free: the baseline's layers are of different kinds, and which of them there "
          "should be more of is not known; pin layers to {}",
          physicalLayers(baseline)));
    }
    baseline.groups.front().layers = layers;
  }
  return loopLayers(baseline, span, visits);
}

LoopedModel loopSpec(const ModelSpec &baseline, int64_t layers, double span, int64_t visits) {
  const LoopedResult deep =
      layers == baseline.physicalLayers() ? LoopedResult{baseline, ""} : withLayers(baseline, layers);
  const LoopedResult looped = deep.spec ? loopMiddle(*deep.spec, span, visits) : deep;
  if (!looped.spec) {
    return refuse(looped.error);
  }
  return {.architecture = budget::architectureOf(*looped.spec), .spec = looped.spec};
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
    return {std::nullopt, emptySpan(span, layers)};
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

LoopedModel loopedModel(const Baseline &baseline, int64_t layers, double span, int64_t visits) {
  return baseline.spec ? loopSpec(*baseline.spec, layers, span, visits)
                       : loopArchitecture(baseline.architecture, layers, span, visits);
}

int64_t physicalLayers(const budget::Architecture &architecture) {
  int64_t layers = 0;
  for (const LayerGroup &group : architecture.groups) {
    layers += group.layers;
  }
  return layers;
}

} // namespace smelt::planner
