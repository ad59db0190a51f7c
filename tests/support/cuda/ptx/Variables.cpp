#include "tests/support/cuda/ptx/BodyParser.h"

#include <bit>
#include <cstring>

namespace smelt::emu {
namespace {

Space spaceOf(std::string_view word) {
  return word == ".shared"  ? Space::Shared
         : word == ".local" ? Space::Local
         : word == ".const" ? Space::Const
                            : Space::Global;
}

void appendValue(Cursor &cursor, Type type, std::vector<uint8_t> &data) {
  const bool minus = cursor.take("-");
  Operand literal;
  if (!parseLiteral(cursor.peek().text, literal)) {
    cursor.fail("initialisers that are not numbers are not emulated: '" + std::string(cursor.peek().text) +
                "'");
  }
  cursor.next();
  uint64_t bits = static_cast<uint64_t>(literal.value);
  if (literal.kind == OperandKind::Double && type == Type::F32) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(literal.value)));
  }
  if (minus) {
    bits = isFloat(type) ? bits ^ (uint64_t(1) << (bytesOf(type) * 8 - 1)) : -bits;
  }
  const size_t at = data.size();
  data.resize(at + bytesOf(type));
  std::memcpy(data.data() + at, &bits, bytesOf(type));
}

void parseInitialiser(Cursor &cursor, Type type, std::vector<uint8_t> &data) {
  if (!cursor.take("{")) {
    appendValue(cursor, type, data);
    return;
  }
  while (!cursor.take("}")) {
    parseInitialiser(cursor, type, data);
    cursor.take(",");
  }
}

} // namespace

bool isVariableSpace(std::string_view word) {
  return word == ".global" || word == ".shared" || word == ".const" || word == ".local";
}

void parseVariables(Cursor &cursor, Module &module, NameTable &names, bool external) {
  const Space space = spaceOf(cursor.word());
  uint64_t align = 1, vector = 1;
  Type type = Type::B8;
  while (cursor.peek().text.starts_with(".")) {
    const std::string word = cursor.word();
    if (word == ".align") {
      align = static_cast<uint64_t>(cursor.integer());
    } else if (word == ".v2" || word == ".v4") {
      vector = static_cast<uint64_t>(word[2] - '0');
    } else if (!parseType(word.substr(1), type) && !word.starts_with(".attribute")) {
      cursor.fail("unknown attribute " + word + " of a variable");
    }
  }
  do {
    Variable variable;
    variable.name = cursor.word();
    variable.space = space;
    variable.external = external;
    variable.align = std::max<uint64_t>(align, bytesOf(type));
    variable.bytes = bytesOf(type) * vector;
    while (cursor.take("[")) {
      if (cursor.take("]")) {
        variable.dynamic_size = true;
        variable.bytes = 0;
      } else {
        variable.bytes *= static_cast<uint64_t>(cursor.integer());
        cursor.expect("]");
      }
    }
    if (cursor.take("=")) {
      parseInitialiser(cursor, type, variable.data);
      variable.bytes = std::max<uint64_t>(variable.bytes, variable.data.size());
      variable.dynamic_size = false;
    }
    if (variable.dynamic_size && (space != Space::Shared || !external)) {
      cursor.fail("only .extern .shared variables may be without a size");
    }
    if (external && !variable.dynamic_size) {
      cursor.fail("external variable " + variable.name +
                  " is defined nowhere: one module is loaded at a time");
    }
    names[variable.name] = static_cast<uint32_t>(module.variables.size());
    module.variables.push_back(std::move(variable));
  } while (cursor.take(","));
  cursor.expect(";");
}

} // namespace smelt::emu
