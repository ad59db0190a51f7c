// What a spec must satisfy beyond having the right fields; the same for specs that were read and specs that
// were made by a program.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <string>
#include <vector>

namespace smelt::spec {

// A broken rule. Fields are paths as in "moe.top_k" or "segment[1].attention.head_dim"; the first is the one
// to point at, the others take part.
struct Problem {
  std::vector<std::string> fields;
  std::string message;
};

// Largest values. Together with kMaxTotalParams they keep every budget within 64 bits.
struct Limits {
  static constexpr int64_t vocab_size = int64_t{1} << 24;
  static constexpr int64_t width = int64_t{1} << 20; // of any one dimension: hidden, query, kv, ffn
  static constexpr int64_t heads = int64_t{1} << 14;
  static constexpr int64_t head_dim = int64_t{1} << 14;
  static constexpr int64_t experts = int64_t{1} << 14;
  static constexpr int64_t layers = int64_t{1} << 12; // physical, of the whole model
  static constexpr int64_t visits = int64_t{1} << 8;
  static constexpr int64_t name_bytes = 256;
};
inline constexpr int64_t kMaxTotalParams = 1'000'000'000'000'000;

// Every broken rule; empty for a spec that can be planned, compiled and run.
std::vector<Problem> validate(const ModelSpec &spec);

} // namespace smelt::spec
