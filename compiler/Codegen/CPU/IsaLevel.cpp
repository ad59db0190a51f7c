#include "compiler/Codegen/CPU/IsaLevel.h"

#include "smelt/artifact.h"

namespace smelt::codegen::cpu {

const std::vector<IsaLevel> &isaLevels() {
  // Tiles of attention. A panel is one zmm or two ymm registers. 32 zmm registers hold 24 accumulators, two
  // to four vectors of weights and an activation; 16 ymm registers hold 12, one panel and an activation. Two
  // FMA pipes of four cycles' latency need 8 accumulators; one row gets them from its panels, which also are
  // 8 streams to read.
  static const std::vector<RegisterTile> zmm = {{12, 2}, {6, 4}, {4, 4}, {2, 8}, {1, 8}};
  static const std::vector<RegisterTile> ymm = {{6, 1}, {2, 2}, {1, 4}};
  static const std::vector<IsaLevel> levels = {
      {"x86-64-v4+bf16", "x86-64-v4", "+avx512bf16",
       SMELT_CPU_AVX2 | SMELT_CPU_AVX512 | SMELT_CPU_AVX512_BF16, 16, true, false, WeightType::bf16, true,
       zmm},
      {"x86-64-v4+vnni", "x86-64-v4", "+avx512vnni,+fast-dpwssd",
       SMELT_CPU_AVX2 | SMELT_CPU_AVX512 | SMELT_CPU_AVX512_VNNI, 16, false, true, WeightType::i8, true, zmm},
      {"x86-64-v4", "x86-64-v4", "", SMELT_CPU_AVX2 | SMELT_CPU_AVX512, 16, false, false, {}, true, zmm},
      {"x86-64-v3", "x86-64-v3", "", SMELT_CPU_AVX2, 8, false, false, {}, false, ymm},
  };
  return levels;
}

// Two panels of bf16 take four registers once they are widened, as four panels of f32 do, which leave the L2
// cache half as often for as many accumulators. Few rows of f32 are taller tiles all the same: reading the
// panels once counts for more.
llvm::ArrayRef<RegisterTile> IsaLevel::weightTiles(WeightType weights, RowCounts counts) const {
  static const std::vector<RegisterTile> zmmBf16 = {{12, 2}, {6, 4}, {4, 4}, {2, 8}, {1, 8}};
  static const std::vector<RegisterTile> zmmF32 = {{6, 4}, {4, 4}, {2, 8}, {1, 8}};
  static const std::vector<RegisterTile> ymm = {{6, 1}, {2, 2}, {1, 4}};
  static const std::vector<RegisterTile> zmmBf16Few = {{12, 2}, {11, 2}, {10, 2}, {9, 2}, {8, 2}, {7, 2},
                                                       {6, 2},  {5, 2},  {4, 4},  {3, 4}, {2, 8}, {1, 8}};
  static const std::vector<RegisterTile> zmmF32Few = {
      {12, 2, true}, {11, 2, true}, {10, 2, true}, {9, 2, true}, {8, 2, true}, {7, 2, true},
      {6, 4},        {5, 4},        {4, 4},        {3, 4},       {2, 8},       {1, 8}};
  static const std::vector<RegisterTile> ymmFew = {{6, 1}, {5, 1}, {4, 1}, {3, 2}, {2, 2}, {1, 4}};
  // Each sum takes two registers, of which that of f32 is in use between two blocks of k alone: the tallest
  // tiles leave it in memory meanwhile.
  static const std::vector<RegisterTile> zmmI8 = {{12, 2}, {6, 2}, {4, 2}, {2, 4}, {1, 8}};
  static const std::vector<RegisterTile> zmmI8Few = {{12, 2}, {11, 2}, {10, 2}, {9, 2}, {8, 2}, {7, 2},
                                                     {6, 2},  {5, 2},  {4, 2},  {3, 2}, {2, 4}, {1, 8}};
  static const std::vector<RegisterTile> ymmI8 = {{4, 1}, {2, 1}, {1, 2}};
  static const std::vector<RegisterTile> ymmI8Few = {{4, 1}, {3, 1}, {2, 1}, {1, 2}};
  bool few = counts == RowCounts::oftenFew;
  if (weights == WeightType::i8) {
    return lanes == 8 ? few ? ymmI8Few : ymmI8 : few ? zmmI8Few : zmmI8;
  }
  if (lanes == 8) {
    return few ? ymmFew : ymm;
  }
  if (weights == WeightType::f32) {
    return few ? zmmF32Few : zmmF32;
  }
  return few ? zmmBf16Few : zmmBf16;
}

const IsaLevel *findIsaLevel(const std::string &name) {
  for (const IsaLevel &level : isaLevels()) {
    if (level.name == name) {
      return &level;
    }
  }
  return nullptr;
}

} // namespace smelt::codegen::cpu
