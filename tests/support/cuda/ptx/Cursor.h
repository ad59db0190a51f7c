// A position in the tokens, and the literals of PTX.
#pragma once

#include "tests/support/cuda/ptx/Ast.h"
#include "tests/support/cuda/ptx/Lexer.h"

namespace smelt::emu {

class Cursor {
public:
  explicit Cursor(std::string_view text) : tokens(tokenize(text)) {}

  const Token &peek(size_t ahead = 0) const { return tokens[std::min(pos + ahead, tokens.size() - 1)]; }
  const Token &next() { return tokens[pos < tokens.size() - 1 ? pos++ : pos]; }
  bool atEnd() const { return peek().kind == TokenKind::End; }
  bool is(std::string_view text) const { return peek().text == text && peek().kind != TokenKind::String; }
  bool take(std::string_view text) {
    if (!is(text)) {
      return false;
    }
    next();
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) {
      fail("expected '" + std::string(text) + "', found '" + std::string(peek().text) + "'");
    }
  }
  std::string word() {
    if (peek().kind != TokenKind::Word) {
      fail("expected a name, found '" + std::string(peek().text) + "'");
    }
    return std::string(next().text);
  }
  /// An integer literal with optional sign.
  int64_t integer();
  /// Passes the tokens left on the line of the one just read, as .loc and .file need.
  void skipLine() {
    const uint32_t line = tokens[pos ? pos - 1 : 0].line;
    while (!atEnd() && peek().line == line) {
      next();
    }
  }
  /// Passes a { } block, braces inside included; the next token must be '{'.
  void skipBlock();
  [[noreturn]] void fail(const std::string &reason) const { throw PtxError(peek().line, reason); }

private:
  std::vector<Token> tokens;
  size_t pos = 0;
};

/// Reads a literal: "0f3F800000", "0d...", "12", "0x1fU", "1.5". False if `text` is none.
bool parseLiteral(std::string_view text, Operand &out);

} // namespace smelt::emu
