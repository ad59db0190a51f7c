// The instruction sets one artifact carries code for, and the register tiles chosen for each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::codegen::cpu {

// Columns a register tile computes at once for a given number of rows.
struct RegisterTile {
  int64_t rows;
  int64_t columns;
};

struct IsaLevel {
  std::string name;                // "x86-64-v4+bf16"
  std::string cpu;                 // LLVM's -mcpu
  std::string features;            // LLVM's -mattr
  uint64_t required;               // SMELT_CPU_* bits
  int64_t lanes;                   // f32 lanes of a vector register
  bool bf16_dot;                   // bf16 weights meet bf16 activations in VDPBF16PS
  std::vector<RegisterTile> tiles; // rows descending; every columns value divides kColumnGroup
};

// Register tiles are laid side by side in groups of this many columns.
inline constexpr int64_t kColumnGroup = 8;

// Best first.
const std::vector<IsaLevel> &isaLevels();

// Null when there is no such level.
const IsaLevel *findIsaLevel(const std::string &name);

} // namespace smelt::codegen::cpu
