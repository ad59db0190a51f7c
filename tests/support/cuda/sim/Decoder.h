// From parsed statements to Instr. Each instruction group registers the opcodes it decodes (Groups.h).
#pragma once

#include "tests/support/cuda/sim/Warp.h"

#include <functional>
#include <initializer_list>
#include <string_view>
#include <unordered_map>

namespace smelt::emu {

/// State of one kernel's decoding that all statements share: register layout and constants.
class KernelLayout {
public:
  KernelLayout(const Module &module, const Function &kernel, const VariableAddresses &globals,
               Program &program);
  Ref registerRef(uint32_t index) const { return offsets[index]; }
  Type registerType(uint32_t index) const { return kernel.registers[index]; }
  /// 32 copies of a value of `width` bytes (2, 4, 8), or one word of predicate bits for width 0.
  Ref constant(uint64_t bits, uint32_t width);
  Ref special(SpecialKind kind, bool wide);
  /// A register nobody reads, for results that are thrown away.
  Ref scratch() const { return scratch_ref; }
  /// The condition code of add.cc and the like, a bit a lane.
  Ref carry() const { return carry_ref; }
  /// Address of a variable in its own space.
  uint64_t address(uint32_t variable) const { return addresses[variable]; }
  const Module &module;
  const Function &kernel;
  Program &program;

private:
  void placeVariables(const VariableAddresses &globals);
  std::vector<Ref> offsets;
  std::vector<uint64_t> addresses;
  std::unordered_map<uint64_t, Ref> pool[9];
  std::unordered_map<uint32_t, Ref> specials;
  Ref scratch_ref = 0, carry_ref = 0;
};

/// One statement being decoded: modifiers are consumed from the left, operands asked for by position.
class Decoding {
public:
  Decoding(KernelLayout &layout, const Statement &statement) : layout(layout), statement(statement) {}

  // Modifiers.
  std::string_view peek() const { return at < statement.op.size() ? std::string_view(statement.op[at]) : ""; }
  bool take(std::string_view modifier);
  /// Index in `choices` of the next modifier, which is consumed; -1 if it is none of them.
  int oneOf(std::initializer_list<std::string_view> choices);
  /// Consumes a type; fails if there is none.
  Type takeType();
  /// Consumes whatever of `choices` comes, in any order and number.
  void ignore(std::initializer_list<std::string_view> choices);
  /// Fails if a modifier is left over.
  void done() const;

  // Operands.
  size_t count() const { return statement.args.size(); }
  void expectCount(size_t least, size_t most) const;
  const Operand &operand(size_t i) const;
  /// Width in bytes of the register at operand `i`; 0 if it is none.
  uint32_t registerBytes(const Operand &operand) const;
  Ref dest(const Operand &operand, uint32_t bytes);
  Ref dest(size_t i, uint32_t bytes) { return dest(operand(i), bytes); }
  Ref source(const Operand &operand, uint32_t bytes, Type immediate_as = Type::B64);
  Ref source(size_t i, uint32_t bytes, Type immediate_as = Type::B64) {
    return source(operand(i), bytes, immediate_as);
  }
  Ref predicateSource(size_t i);
  Ref predicateDest(const Operand &operand);
  int64_t integer(size_t i) const;
  /// Sets base, offset and flags of `in` for the address at operand `i`.
  void address(Instr &in, size_t i, Ref Instr::*base = &Instr::a);
  /// Appends the elements of a { } operand, or the one operand, to the program's lists; returns how many.
  uint32_t list(Instr &in, const Operand &operand, uint32_t bytes, bool destination);

  [[noreturn]] void fail(const std::string &reason) const;

  KernelLayout &layout;
  const Statement &statement;

private:
  size_t at = 1;
};

using DecodeFn = void (*)(Decoding &d, Instr &in);
using DecodeTable = std::unordered_map<std::string_view, DecodeFn>;

/// Decodes one kernel. Throws PtxError with the line.
Program decodeKernel(std::shared_ptr<const Module> module, const Function &kernel,
                     const VariableAddresses &globals);

} // namespace smelt::emu
