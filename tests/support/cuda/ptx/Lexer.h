// Tokens of PTX text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace smelt::emu {

enum class TokenKind : uint8_t { Word, String, Punct, End };

/// A word is a maximal run of letters, digits and _ $ % . with :: inside; so "mov.b32", "%tid.x" and
/// "0f3F800000" are one word each.
struct Token {
  TokenKind kind;
  std::string_view text;
  uint32_t line;
};

/// Splits `text`; comments vanish. Throws PtxError on an unterminated comment or string. The tokens point
/// into `text`; the last is End.
std::vector<Token> tokenize(std::string_view text);

} // namespace smelt::emu
