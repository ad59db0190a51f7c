// Prompts from the command line and from files.
#pragma once

#include "runtime/src/Status.h"
#include "runtime/tools/smelt-run/RunOptions.h"

namespace smelt::runtime {

using Prompt = std::vector<int32_t>;

// The prompts the options name, at least one, none empty; several only with --batch.
// SMELT_input with the place of what is wrong; SMELT_io when the file cannot be read.
Result<std::vector<Prompt>> readPrompts(const RunOptions &options);

// SMELT_input listing every token that is not in 0..vocabSize-1.
Status checkPrompts(const std::vector<Prompt> &prompts, uint32_t vocabSize);

} // namespace smelt::runtime
