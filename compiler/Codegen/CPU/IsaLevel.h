// The instruction sets one artifact carries code for, and the register tiles chosen for each.
#pragma once

#include "compiler/Codegen/Common/Kernel.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace smelt::codegen::cpu {

// Rows and panels of 16 result columns that are multiplied in registers at once.
struct RegisterTile {
  int64_t rows;
  int64_t panels;
  bool alone = false; // for exactly so many rows: tiles of fewer do better when there are more
};

// How many rows a product has. An expert among hundreds rarely gets more than a tall tile has, and rows that
// are left over should be one tile, which reads their panels once: there is one of every height. Elsewhere
// that would only be more code to compile.
enum class RowCounts { usuallyMany, oftenFew };

struct IsaLevel {
  std::string name;                // "x86-64-v4+bf16"
  std::string cpu;                 // LLVM's -mcpu
  std::string features;            // LLVM's -mattr
  uint64_t required;               // SMELT_CPU_* bits
  int64_t lanes;                   // f32 lanes of a vector register
  bool bf16_dot;                   // bf16 weights meet bf16 activations in VDPBF16PS
  bool vnni;                       // VPDPWSSD for 8-bit weights
  std::optional<WeightType> only;  // the weights that gain from what the next level lacks, if not all do
  bool masked_stores;              // a masked store costs no more than a whole one
  std::vector<RegisterTile> tiles; // of attention: rows descending, the last of one row

  // Those of products with weights of the given type, in the same order; the first is the same for all
  // counts.
  llvm::ArrayRef<RegisterTile> weightTiles(WeightType weights, RowCounts counts) const;

  bool gains(WeightType weights) const { return !only || *only == weights; }
};

// Best first.
const std::vector<IsaLevel> &isaLevels();

// Null when there is no such level.
const IsaLevel *findIsaLevel(const std::string &name);

} // namespace smelt::codegen::cpu
