// One function for each format, and what they share.
#pragma once

#include "compiler/Export/Export.h"

namespace smelt::exporting {

ExportResult huggingFaceConfig(const spec::ModelSpec &spec);
ExportResult megatronArguments(const spec::ModelSpec &spec);
ExportResult torchtitanToml(const spec::ModelSpec &spec);

ExportResult refused(std::string error);

// 1 for each physical layer with experts, 0 for each dense one.
std::vector<int> moeLayers(const spec::ModelSpec &spec);
bool hasDenseLayers(const spec::ModelSpec &spec);
bool hasMoeLayers(const spec::ModelSpec &spec);

// "layers 2 to 6"
std::string layersText(int64_t first, int64_t layers);
// What a segment's visits and residual scale mean, in sentences.
std::vector<std::string> loopNotes(int64_t first, const spec::Segment &segment);

inline constexpr std::string_view kLoopedComment =
    "Transformers has no class for this model: model_type keeps it from being run as if it had no loop.";

// "# ..." lines; nothing for no notes.
std::string noteComments(std::string_view heading, const std::vector<std::string> &notes);

} // namespace smelt::exporting
