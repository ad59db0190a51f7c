#include "tests/support/cuda/ptx/Cursor.h"

#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>

namespace smelt::emu {

bool parseLiteral(std::string_view text, Operand &out) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) {
    return false;
  }
  const char kind = text.size() > 1 && text[0] == '0' ? static_cast<char>(std::tolower(text[1])) : '\0';
  const auto parse = [&](std::string_view digits, int base) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    out.value = static_cast<int64_t>(value);
    return error == std::errc() && (end == digits.data() + digits.size() || *end == 'U');
  };
  if ((kind == 'f' && text.size() == 10) || (kind == 'd' && text.size() == 18)) {
    out.kind = kind == 'f' ? OperandKind::Float : OperandKind::Double;
    return parse(text.substr(2), 16);
  }
  out.kind = OperandKind::Integer;
  if (kind == 'x') {
    return parse(text.substr(2), 16);
  }
  if (kind == 'b') {
    return parse(text.substr(2), 2);
  }
  if (text.find('.') != std::string_view::npos) {
    out.kind = OperandKind::Double;
    out.value = std::bit_cast<int64_t>(std::strtod(std::string(text).c_str(), nullptr));
    return true;
  }
  return parse(text, text.size() > 1 && text[0] == '0' ? 8 : 10);
}

int64_t Cursor::integer() {
  const bool minus = take("-");
  Operand literal;
  if (!parseLiteral(peek().text, literal) || literal.kind != OperandKind::Integer) {
    fail("expected an integer, found '" + std::string(peek().text) + "'");
  }
  next();
  return minus ? -literal.value : literal.value;
}

void Cursor::skipBlock() {
  expect("{");
  for (int depth = 1; depth > 0;) {
    if (atEnd()) {
      fail("block without an end");
    }
    const std::string_view text = next().text;
    depth += text == "{" ? 1 : text == "}" ? -1 : 0;
  }
}

} // namespace smelt::emu
