#include "tests/support/cuda/ptx/Lexer.h"

#include "tests/support/cuda/ptx/Ast.h"

#include <cctype>

namespace smelt::emu {
namespace {

bool isWordChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  std::vector<Token> run() {
    while (skipBlank()) {
      if (isWordChar(at(0))) {
        word();
      } else if (at(0) == '"') {
        quoted();
      } else {
        add(TokenKind::Punct, pos, pos + 1);
      }
    }
    tokens.push_back({TokenKind::End, {}, line});
    return std::move(tokens);
  }

private:
  char at(size_t ahead) const { return pos + ahead < text.size() ? text[pos + ahead] : '\0'; }

  void add(TokenKind kind, size_t begin, size_t end) {
    tokens.push_back({kind, text.substr(begin, end - begin), line});
    pos = end;
  }

  /// Moves past blanks and comments; false at the end.
  bool skipBlank() {
    while (pos < text.size()) {
      if (at(0) == '\n') {
        ++line;
        ++pos;
      } else if (std::isspace(static_cast<unsigned char>(at(0)))) {
        ++pos;
      } else if (at(0) == '/' && at(1) == '/') {
        while (pos < text.size() && at(0) != '\n') {
          ++pos;
        }
      } else if (at(0) == '/' && at(1) == '*') {
        const size_t end = text.find("*/", pos + 2);
        if (end == std::string_view::npos) {
          throw PtxError(line, "comment without an end");
        }
        for (; pos < end + 2; ++pos) {
          line += at(0) == '\n';
        }
      } else {
        return true;
      }
    }
    return false;
  }

  void word() {
    size_t end = pos;
    for (;;) {
      if (end < text.size() && isWordChar(text[end])) {
        ++end;
      } else if (end + 2 < text.size() && text[end] == ':' && text[end + 1] == ':' &&
                 isWordChar(text[end + 2])) {
        end += 2;
      } else {
        break;
      }
    }
    add(TokenKind::Word, pos, end);
  }

  void quoted() {
    const size_t end = text.find('"', pos + 1);
    if (end == std::string_view::npos) {
      throw PtxError(line, "string without an end");
    }
    add(TokenKind::String, pos, end + 1);
  }

  std::string_view text;
  size_t pos = 0;
  uint32_t line = 1;
  std::vector<Token> tokens;
};

} // namespace

std::vector<Token> tokenize(std::string_view text) { return Scanner(text).run(); }

} // namespace smelt::emu
