#include "compiler/Export/Export.h"

#include "compiler/Export/ExportFormats.h"
#include "compiler/Spec/SpecNames.h"

#include <algorithm>
#include <fmt/format.h>

namespace smelt::exporting {
namespace {

using spec::FfnKind;
using spec::ModelSpec;
using spec::Segment;

struct FormatEntry {
  Format format;
  std::string_view name;
  ExportResult (*write)(const ModelSpec &);
};

constexpr FormatEntry formats[] = {{Format::huggingface, "huggingface", huggingFaceConfig},
                                   {Format::megatron, "megatron", megatronArguments},
                                   {Format::torchtitan, "torchtitan", torchtitanToml}};

const FormatEntry &entryOf(Format format) {
  return *std::find_if(std::begin(formats), std::end(formats),
                       [&](const FormatEntry &entry) { return entry.format == format; });
}

void noteAttention(const ModelSpec &spec, size_t index, std::vector<std::string> &notes) {
  const spec::Attention &own = spec.segments[index].attention;
  const spec::Attention &usual = spec.attention;
  std::string text;
  const auto note = [&](std::string_view name, auto value, auto other) {
    text += value != other ? fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value) : "";
  };
  note("query heads", own.query_heads, usual.query_heads);
  note("KV heads", own.kv_heads, usual.kv_heads);
  note("head size", own.head_dim, usual.head_dim);
  note("RoPE base", own.rope_theta, usual.rope_theta);
  note("QKV bias", own.qkv_bias, usual.qkv_bias);
  note("QK norm", spec::toString(own.qk_norm), spec::toString(usual.qk_norm));
  if (!text.empty()) {
    notes.push_back(
        fmt::format("{} have {}", layersText(spec.firstLayer(index), spec.segments[index].layers), text));
  }
}

} // namespace

std::string_view formatName(Format format) { return entryOf(format).name; }

std::optional<Format> parseFormat(std::string_view name) {
  for (const FormatEntry &entry : formats) {
    if (entry.name == name) {
      return entry.format;
    }
  }
  return std::nullopt;
}

ExportResult exportSpec(const ModelSpec &spec, Format format) { return entryOf(format).write(spec); }

std::vector<std::string> beyondOneStack(const ModelSpec &spec) {
  std::vector<std::string> notes;
  for (size_t i = 0; i < spec.segments.size(); ++i) {
    const std::vector<std::string> loop = loopNotes(spec.firstLayer(i), spec.segments[i]);
    notes.insert(notes.end(), loop.begin(), loop.end());
    noteAttention(spec, i, notes);
  }
  return notes;
}

std::string layersText(int64_t first, int64_t layers) {
  return layers == 1 ? fmt::format("layer {}", first)
                     : fmt::format("layers {} to {}", first, first + layers - 1);
}

std::vector<std::string> loopNotes(int64_t first, const Segment &segment) {
  std::vector<std::string> notes;
  const std::string layers = layersText(first, segment.layers);
  if (segment.visits > 1) {
    notes.push_back(
        segment.order == spec::VisitOrder::block
            ? fmt::format(
                  "{} run {} times, one after the other and then again, with the same weights and a KV "
                  "cache for each run",
                  layers, segment.visits)
            : fmt::format(
                  "{}: each runs {} times in a row, with the same weights and a KV cache for each run",
                  layers, segment.visits));
  }
  if (segment.residual_scale != 1.0) {
    notes.push_back(fmt::format("{} add {} of the output of attention and of the FFN to the residual stream",
                                layers, segment.residual_scale));
  }
  return notes;
}

ExportResult refused(std::string error) {
  return {.text = std::nullopt, .status = SMELT_unsupported, .error = std::move(error)};
}

std::vector<int> moeLayers(const ModelSpec &spec) {
  std::vector<int> layers;
  for (const Segment &segment : spec.segments) {
    layers.insert(layers.end(), static_cast<size_t>(segment.layers), segment.ffn == FfnKind::moe ? 1 : 0);
  }
  return layers;
}

bool hasDenseLayers(const ModelSpec &spec) {
  const std::vector<int> layers = moeLayers(spec);
  return std::find(layers.begin(), layers.end(), 0) != layers.end();
}

bool hasMoeLayers(const ModelSpec &spec) {
  const std::vector<int> layers = moeLayers(spec);
  return std::find(layers.begin(), layers.end(), 1) != layers.end();
}

std::string noteComments(std::string_view heading, const std::vector<std::string> &notes) {
  std::string text;
  for (const std::string &note : notes) {
    text += (text.empty() ? fmt::format("# {}\n", heading) : "") + fmt::format("# - {}\n", note);
  }
  return text;
}

} // namespace smelt::exporting
