// Random small valid specs for property tests, the same for the same seed on every machine.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::tests {

// Largest values; the smallest are 1, or 8 for hidden_size and vocab_size.
struct GeneratorLimits {
  int64_t vocab_size = 96;
  int64_t hidden_size = 64;
  int64_t kv_heads = 3;
  int64_t queries_per_kv_head = 4;
  int64_t experts = 13;
  int64_t ffn_width = 48; // of an expert, a shared expert or a dense layer
  int64_t segments = 3;
  int64_t layers = 2; // of a segment
  int64_t visits = 4;
};

// Seeds 0 to 19 alone reach every value of every enumerated or boolean field, dense and MoE layers mixed and
// alone, shared experts, top_k = experts, one to four visits, and every attention key overridden in a
// segment.
spec::ModelSpec generateSpec(uint64_t seed, const GeneratorLimits &limits = {});

// A valid spec that differs from the original in one field, or in a field and what it cannot do without.
struct FieldChange {
  std::string field; // as in "moe.top_k"
  spec::ModelSpec spec;
};

// One change for every field that the spec can change on its own.
std::vector<FieldChange> fieldChanges(const spec::ModelSpec &spec);

} // namespace smelt::tests
