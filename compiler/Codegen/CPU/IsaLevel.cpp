#include "compiler/Codegen/CPU/IsaLevel.h"

#include "smelt/artifact.h"

namespace smelt::codegen::cpu {

const std::vector<IsaLevel> &isaLevels() {
  // 32 zmm registers hold 24 accumulators with four weight rows and one activation; 16 ymm registers hold 8
  // with both operands. Few rows have only their columns to keep two FMA pipes of four cycles' latency busy.
  static const std::vector<RegisterTile> zmm = {{6, 4}, {2, 8}, {1, 8}};
  static const std::vector<RegisterTile> ymm = {{4, 2}, {2, 4}, {1, 8}};
  static const std::vector<IsaLevel> levels = {
      {"x86-64-v4+bf16", "x86-64-v4", "+avx512bf16",
       SMELT_CPU_AVX2 | SMELT_CPU_AVX512 | SMELT_CPU_AVX512_BF16, 16, true, zmm},
      {"x86-64-v4", "x86-64-v4", "", SMELT_CPU_AVX2 | SMELT_CPU_AVX512, 16, false, zmm},
      {"x86-64-v3", "x86-64-v3", "", SMELT_CPU_AVX2, 8, false, ymm},
  };
  return levels;
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
