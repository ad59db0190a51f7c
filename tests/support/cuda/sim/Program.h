// A kernel decoded for execution: one Instr a statement, operands as offsets into a warp's register block.
#pragma once

#include "tests/support/cuda/ptx/Ast.h"

#include <memory>

namespace smelt::emu {

struct Warp;
struct Instr;
struct Lanes;

/// What a warp does after an instruction.
enum class Step : uint8_t {
  Next,   ///< go on with the following instruction
  Jumped, ///< the handler has set pc and lanes
  Wait,   ///< stay here until another warp or lane group releases this one
  Yield, ///< nothing gained by going on at once: let others run, then continue with the following instruction
};

/// Executes one instruction for the lanes in the mask, which is never empty.
using Handler = Step (*)(Warp &warp, const Instr &in, uint32_t lanes);
/// The part of a warp collective that sees all participating lanes.
using CollectiveFn = void (*)(Lanes &all, uint32_t lanes, const Instr &in);

/// Byte offset of an operand: 32 values side by side in the warp's registers, or in the constants if bit 0 is
/// set. A predicate is one word with a bit a lane; bit 1 asks for its complement.
using Ref = uint32_t;
inline constexpr Ref kConstantBit = 1, kNegateBit = 2, kNoRef = ~0u;
inline constexpr uint32_t kWarpSize = 32, kNoPc = ~0u;

enum InstrFlags : uint8_t {
  kJoinPoint = 1,    ///< lanes of a divergent branch meet here
  kAligned = 2,      ///< all lanes of the warp must be here together
  kShortAddress = 4, ///< the address register has 32 bits
  kNoBase = 8,       ///< the address is the immediate alone
};

struct Instr {
  Handler run = nullptr;
  Ref guard = kNoRef;
  Ref d = kNoRef, a = kNoRef, b = kNoRef, c = kNoRef, e = kNoRef;
  uint32_t x = 0, y = 0, z = 0; ///< meaning depends on the handler: sizes, modes
  uint32_t list = 0, count = 0; ///< operands of { } in Program::lists
  int64_t imm = 0;              ///< address offset or immediate
  uint32_t target = kNoPc;      ///< of a branch
  uint32_t reconverge = kNoPc;  ///< where lanes of this branch meet again
  CollectiveFn collective = nullptr;
  uint32_t line = 0;
  uint8_t flags = 0;
  Space space = Space::Generic;
};

/// Values of special registers that a warp finds in its register block.
enum class SpecialKind : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  Lane,
  WarpId,
  WarpCount,
  Smid,
  Gridid,
  MaskEq,
  MaskLe,
  MaskLt,
  MaskGe,
  MaskGt,
  DynamicShared,
  TotalShared,
  Zero,
  One,
};

struct SpecialSlot {
  SpecialKind kind;
  uint32_t offset; ///< in the register block
  bool wide;       ///< 64-bit
};

/// Addresses of a module's .global and .const variables, by index into Module::variables.
using VariableAddresses = std::vector<uint64_t>;

struct Program {
  std::string name;
  std::shared_ptr<const Module> module;
  std::vector<Instr> code;
  std::vector<Ref> lists;
  std::vector<SpecialSlot> specials;
  std::vector<uint8_t> constants;
  uint32_t register_bytes = 0;
  uint64_t param_bytes = 0;
  std::vector<Param> params;
  uint32_t static_shared = 0; ///< bytes of named shared variables
  uint32_t dynamic_start = 0; ///< where .extern .shared begins
  uint32_t local_bytes = 0;   ///< a thread
  std::array<uint32_t, 3> reqntid{0, 0, 0}, maxntid{0, 0, 0};
  uint32_t registers_used = 0; ///< 32-bit virtual registers, capped at 255; only to answer cuFuncGetAttribute
  bool waits_for_previous = false; ///< has griddepcontrol.wait
  bool async_proxy = false;    ///< has wgmma or bulk copies: writes need a proxy fence before those
  uint32_t max_dynamic_shared = 48 * 1024; ///< set by cuFuncSetAttribute, less the static part

  const std::string &text(const Instr &in) const {
    static const std::string none;
    return in.line >= 1 && in.line <= module->lines.size() ? module->lines[in.line - 1] : none;
  }
};

} // namespace smelt::emu
