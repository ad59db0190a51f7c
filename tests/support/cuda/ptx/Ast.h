// What the PTX parser hands to the decoder: names resolved, scopes flattened, nothing interpreted yet.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace smelt::emu {

/// Types of the PTX ISA that registers, variables and instructions carry.
enum class Type : uint8_t {
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  F32,
  F32x2,
  F64,
  TF32,
  U16x2,
  S16x2,
  E4M3x2,
  E5M2x2,
};

/// Bytes of one value; 0 for a predicate.
uint32_t bytesOf(Type type);
bool isSigned(Type type);
bool isFloat(Type type);
/// The type named by a modifier such as "f32" or "bf16x2"; false if `text` names none.
bool parseType(std::string_view text, Type &type);

/// A text the parser or the decoder refuses. `what()` is "line N: reason: text of the line".
struct PtxError : std::runtime_error {
  PtxError(uint32_t line, const std::string &reason)
      : std::runtime_error("line " + std::to_string(line) + ": " + reason), line(line) {}
  uint32_t line;
};

enum class OperandKind : uint8_t {
  Register,
  Special,
  Integer,
  Float,
  Double,
  Variable,
  Param,
  Label,
  Vector,
  Address,
  Discard
};

struct Operand {
  OperandKind kind = OperandKind::Discard;
  bool negated = false;       ///< `!%p` of a predicate, or a minus before a register
  int64_t value = 0;          ///< register, variable, parameter or statement index; integer; bits of a float
  int64_t offset = 0;         ///< added to a variable's address, or inside [ ]
  std::string name;           ///< special register or label, as written
  std::vector<Operand> parts; ///< elements of { }, the base inside [ ], or the second result of a|b
  bool paired = false;        ///< written a|b: parts[0] is b
};

struct Statement {
  std::vector<std::string> op; ///< the opcode and its modifiers, split at dots
  int32_t guard = -1;          ///< register index of @%p
  bool guard_negated = false;
  std::vector<Operand> args;
  uint32_t line = 0;
};

enum class Space : uint8_t { Generic, Global, Shared, Local, Const, Param };

struct Variable {
  std::string name;
  Space space = Space::Global;
  uint64_t align = 1;
  uint64_t bytes = 0;
  bool dynamic_size = false; ///< `.extern .shared x[]`: sized by the launch
  bool external = false;
  std::vector<uint8_t> data; ///< initialiser, zero-filled to `bytes`; empty if there is none
};

struct Param {
  std::string name;
  uint64_t align = 1, bytes = 0, offset = 0;
};

struct Function {
  std::string name;
  uint32_t line = 0;
  std::vector<Param> params;
  uint64_t param_bytes = 0;
  std::vector<Type> registers;
  std::vector<Statement> body;
  std::vector<uint32_t> variables; ///< indices into Module::variables of those declared inside the body
  std::array<uint32_t, 3> reqntid{0, 0, 0}, maxntid{0, 0, 0};
  uint32_t min_ctas = 0;
};

struct Module {
  int version_major = 0, version_minor = 0;
  uint32_t sm = 0;    ///< 90 for sm_90a
  std::string target; ///< as written
  std::vector<Variable> variables;
  std::vector<Function> kernels;
  std::vector<std::string> lines; ///< source text, for messages; line N is lines[N-1]
};

/// Parses a whole PTX module. Throws PtxError.
Module parseModule(std::string_view text);

} // namespace smelt::emu
