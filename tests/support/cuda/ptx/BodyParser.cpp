#include "tests/support/cuda/ptx/BodyParser.h"

#include <map>

namespace smelt::emu {
namespace {

/// Names of one { } block. Inline assembly opens such blocks with registers and labels of its own.
struct Scope {
  int parent = -1;
  std::unordered_map<std::string, uint32_t> registers;
  std::unordered_map<std::string, uint32_t> labels; ///< statement indices
  NameTable variables;
};

class BodyParser {
public:
  BodyParser(Cursor &cursor, Module &module, const NameTable &globals, Function &kernel)
      : cursor(cursor), module(module), kernel(kernel) {
    Scope outer;
    outer.variables = globals;
    scopes.push_back(std::move(outer));
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      params[kernel.params[i].name] = static_cast<uint32_t>(i);
    }
  }

  void run() {
    cursor.expect("{");
    enter();
    while (scope != 0) {
      line();
    }
    resolveLabels();
  }

private:
  void enter() {
    Scope inner;
    inner.parent = scope;
    scope = static_cast<int>(scopes.size());
    scopes.push_back(std::move(inner));
  }

  void line() {
    if (cursor.atEnd()) {
      cursor.fail("the body of " + kernel.name + " has no end");
    }
    if (cursor.take("{")) {
      enter();
    } else if (cursor.take("}")) {
      scope = scopes[scope].parent;
    } else if (cursor.take(";")) {
      return;
    } else if (cursor.take(".loc") || cursor.take(".file")) {
      cursor.skipLine();
    } else if (cursor.take(".pragma")) {
      cursor.next();
      cursor.expect(";");
    } else if (cursor.take(".branchtargets")) {
      do {
        tables[last_label].push_back(cursor.word());
      } while (cursor.take(","));
      cursor.expect(";");
    } else if (cursor.take(".reg")) {
      registers();
    } else if (isVariableSpace(cursor.peek().text)) {
      const auto first = static_cast<uint32_t>(module.variables.size());
      parseVariables(cursor, module, scopes[scope].variables, false);
      for (uint32_t i = first; i < module.variables.size(); ++i) {
        kernel.variables.push_back(i);
      }
    } else if (cursor.peek(1).text == ":" && cursor.peek().kind == TokenKind::Word) {
      label();
    } else {
      statement();
    }
  }

  void label() {
    const std::string name = cursor.word();
    cursor.expect(":");
    last_label = name;
    if (!scopes[scope].labels.emplace(name, static_cast<uint32_t>(kernel.body.size())).second) {
      cursor.fail("label " + name + " is defined twice");
    }
  }

  void registers() {
    Type type = Type::B32;
    const std::string word = cursor.word();
    if (!word.starts_with(".") || !parseType(word.substr(1), type)) {
      cursor.fail("unknown register type " + word);
    }
    if (type == Type::B128) {
      cursor.fail("128-bit registers are not emulated");
    }
    do {
      const std::string name = cursor.word();
      if (cursor.take("<")) {
        const int64_t count = cursor.integer();
        cursor.expect(">");
        for (int64_t i = 0; i < count; ++i) {
          declare(name + std::to_string(i), type);
        }
      } else {
        declare(name, type);
      }
    } while (cursor.take(","));
    cursor.expect(";");
  }

  void declare(const std::string &name, Type type) {
    scopes[scope].registers[name] = static_cast<uint32_t>(kernel.registers.size());
    kernel.registers.push_back(type);
  }

  void statement() {
    Statement out;
    out.line = cursor.peek().line;
    if (cursor.take("@")) {
      out.guard_negated = cursor.take("!");
      const Operand guard = name(cursor.word());
      if (guard.kind != OperandKind::Register || kernel.registers[guard.value] != Type::Pred) {
        cursor.fail("the guard is no predicate register");
      }
      out.guard = static_cast<int32_t>(guard.value);
    }
    splitOpcode(cursor.word(), out.op);
    if (out.op[0] == "brx") {
      jumpTable(out);
      return;
    }
    const bool branch = out.op[0] == "bra";
    while (!cursor.take(";")) {
      if (cursor.atEnd() || cursor.is("}")) {
        cursor.fail("statement without ';'");
      }
      out.args.push_back(branch ? labelOperand() : operand());
      if (!cursor.is(";")) {
        cursor.expect(",");
      }
    }
    kernel.body.push_back(std::move(out));
  }

  /// brx.idx as comparisons and branches, one an entry; an index past the table is undefined and takes the
  /// last.
  void jumpTable(const Statement &from) {
    const Operand index = operand();
    cursor.expect(",");
    const std::string table = cursor.word();
    cursor.expect(";");
    const std::vector<std::string> &targets = tables[table];
    if (targets.empty() || from.guard >= 0) {
      throw PtxError(from.line, targets.empty() ? "jump table " + table + " has no targets"
                                                : "guarded brx is not emulated");
    }
    Operand chosen;
    chosen.kind = OperandKind::Register;
    chosen.value = static_cast<int64_t>(kernel.registers.size());
    kernel.registers.push_back(Type::Pred);
    for (size_t i = 0; i < targets.size(); ++i) {
      Statement jump;
      jump.line = from.line;
      jump.op = {"bra"};
      jump.args.push_back(label(targets[i]));
      if (i + 1 < targets.size()) {
        Operand entry;
        entry.kind = OperandKind::Integer;
        entry.value = static_cast<int64_t>(i);
        Statement compare;
        compare.line = from.line;
        compare.op = {"setp", "eq", "u32"};
        compare.args = {chosen, index, entry};
        kernel.body.push_back(std::move(compare));
        jump.guard = static_cast<int32_t>(chosen.value);
      }
      kernel.body.push_back(std::move(jump));
    }
  }

  static void splitOpcode(const std::string &text, std::vector<std::string> &parts) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('.', begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  Operand labelOperand() { return label(cursor.word()); }

  Operand label(const std::string &name) const {
    Operand out;
    out.kind = OperandKind::Label;
    out.name = name;
    out.value = scope;
    return out;
  }

  Operand operand() {
    Operand first = single();
    if (cursor.take("|")) {
      first.paired = true;
      first.parts.push_back(single());
    }
    return first;
  }

  Operand single() {
    Operand out;
    if (cursor.take("{")) {
      out.kind = OperandKind::Vector;
      while (!cursor.take("}")) {
        out.parts.push_back(single());
        cursor.take(",");
      }
      return out;
    }
    if (cursor.take("[")) {
      return address();
    }
    if (cursor.take("!")) {
      out = single();
      out.negated = !out.negated;
      return out;
    }
    if (cursor.take("-")) {
      return minus();
    }
    if (parseLiteral(cursor.peek().text, out)) {
      cursor.next();
      return out;
    }
    out = name(cursor.word());
    if (out.kind == OperandKind::Variable || out.kind == OperandKind::Param) {
      out.offset = offset();
    }
    return out;
  }

  Operand minus() {
    Operand out = single();
    if (out.kind == OperandKind::Integer) {
      out.value = -out.value;
    } else if (out.kind == OperandKind::Float) {
      out.value ^= int64_t(1) << 31;
    } else if (out.kind == OperandKind::Double) {
      out.value ^= int64_t(1) << 63;
    } else {
      out.negated = !out.negated;
    }
    return out;
  }

  int64_t offset() {
    int64_t sum = 0;
    for (;;) {
      if (cursor.take("+")) {
        sum += cursor.integer();
      } else if (cursor.is("-")) {
        sum += cursor.integer();
      } else {
        return sum;
      }
    }
  }

  /// After '[': a base and an offset, and for tensor copies a second part that the decoder refuses.
  Operand address() {
    Operand out;
    out.kind = OperandKind::Address;
    Operand base = single();
    if (base.kind == OperandKind::Variable || base.kind == OperandKind::Param) {
      out.offset = base.offset;
      base.offset = 0;
    } else {
      out.offset = offset();
    }
    out.parts.push_back(std::move(base));
    while (cursor.take(",")) {
      out.parts.push_back(single());
    }
    cursor.expect("]");
    return out;
  }

  Operand name(const std::string &word) {
    Operand out;
    if (word == "_") {
      return out;
    }
    for (int at = scope; at >= 0; at = scopes[at].parent) {
      if (const auto found = scopes[at].registers.find(word); found != scopes[at].registers.end()) {
        out.kind = OperandKind::Register;
        out.value = found->second;
        return out;
      }
      if (const auto found = scopes[at].variables.find(word); found != scopes[at].variables.end()) {
        out.kind = OperandKind::Variable;
        out.value = found->second;
        return out;
      }
    }
    if (const auto found = params.find(word); found != params.end()) {
      out.kind = OperandKind::Param;
      out.value = found->second;
      return out;
    }
    if (word == "WARP_SZ") {
      out.kind = OperandKind::Integer;
      out.value = 32;
      return out;
    }
    out.kind = word.starts_with("%") ? OperandKind::Special : OperandKind::Label;
    out.name = word;
    return out;
  }

  void resolveLabels() {
    for (Statement &statement : kernel.body) {
      if (statement.op[0] != "bra") {
        continue;
      }
      for (Operand &target : statement.args) {
        target.value = find(target, statement.line);
      }
    }
  }

  int64_t find(const Operand &target, uint32_t line) const {
    for (int at = static_cast<int>(target.value); at >= 0; at = scopes[at].parent) {
      if (const auto found = scopes[at].labels.find(target.name); found != scopes[at].labels.end()) {
        return found->second;
      }
    }
    throw PtxError(line, "label " + target.name + " is defined nowhere");
  }

  Cursor &cursor;
  Module &module;
  Function &kernel;
  std::vector<Scope> scopes;
  std::unordered_map<std::string, uint32_t> params;
  std::unordered_map<std::string, std::vector<std::string>> tables; ///< .branchtargets by their label
  std::string last_label;
  int scope = 0;
};

} // namespace

void parseBody(Cursor &cursor, Module &module, const NameTable &globals, Function &kernel) {
  BodyParser(cursor, module, globals, kernel).run();
}

} // namespace smelt::emu
