#include "runtime/src/StepInput.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

namespace smelt::runtime {
namespace {

void checkRows(const smelt_step &step, ProblemList &problems) {
  for (size_t i = 0; i < step.logit_row_count; ++i) {
    int32_t row = step.logit_rows[i];
    if (row < 0 || size_t(row) >= step.token_count) {
      problems.add(fmt::format("logit row {} is token {} of {}", i, row, step.token_count));
    } else if (i && row <= step.logit_rows[i - 1]) {
      problems.add(fmt::format("logit row {} is token {}, after token {}; rows must increase", i, row,
                               step.logit_rows[i - 1]));
    }
  }
}

} // namespace

Status StepInput::read(const smelt_step &step, std::span<const uint32_t> currentLengths, StepLimits limits) {
  if (step.token_count == 0 || !step.tokens) {
    return fail(SMELT_input, "there are no tokens to run");
  }
  if (step.token_count > size_t(INT32_MAX)) {
    return fail(SMELT_input, fmt::format("{} tokens are too many for one call", step.token_count));
  }
  if (step.logit_row_count && !step.logit_rows) {
    return fail(SMELT_input, fmt::format("{} logit rows are asked for, but not which", step.logit_row_count));
  }
  ProblemList problems;
  lengths.assign(currentLengths.begin(), currentLengths.end());
  positions.resize(step.token_count);
  sequenceIds.resize(step.token_count);
  for (size_t i = 0; i < step.token_count; ++i) {
    int32_t token = step.tokens[i], sequence = step.sequence_ids ? step.sequence_ids[i] : 0;
    if (token < 0 || uint32_t(token) >= limits.vocabSize) {
      problems.add(fmt::format("token {} is {}, the vocabulary has {}", i, token, limits.vocabSize));
    }
    if (sequence < 0 || size_t(sequence) >= lengths.size()) {
      problems.add(
          fmt::format("token {} is of sequence {}, the session has {}", i, sequence, lengths.size()));
      continue;
    }
    uint32_t next = lengths[size_t(sequence)];
    if (step.positions && (step.positions[i] < 0 || uint32_t(step.positions[i]) != next)) {
      problems.add(fmt::format("token {} is at position {}, the next of sequence {} is {}", i,
                               step.positions[i], sequence, next));
    }
    if (next >= limits.capacity) {
      problems.add(fmt::format("token {} would be at position {} of sequence {}, the capacity is {}", i, next,
                               sequence, limits.capacity));
      continue;
    }
    sequenceIds[i] = sequence;
    positions[i] = int32_t(next);
    ++lengths[size_t(sequence)];
  }
  checkRows(step, problems);
  return problems.empty() ? success() : fail(SMELT_input, fmt::format("invalid step:{}", problems.text()));
}

} // namespace smelt::runtime
