#include "compiler/Spec/TomlScan.h"

#include <fmt/format.h>

namespace smelt::spec {
namespace {

// Follows strings and comments exactly as far as the text is TOML; beyond its first error the parser goes
// only to the end of a token.
class Scanner {
public:
  Scanner(std::string_view text, Diagnostics &diagnostics) : text(text), diagnostics(diagnostics) {}

  bool scan() {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    at = text.substr(0, 3) == kByteOrderMark ? 3 : 0;
    for (; at < text.size(); ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      location.column += byte < 0x80 || byte >= 0xc0; // not for the later bytes of a character
      if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
        return refuse(
            fmt::format("a raw control character, \\x{:02x}; a string may have it as an escape", byte));
      }
      if (byte >= 0x80 && within != Within::comment && !(within != Within::code && plain_value)) {
        return refuse(
            "a character beyond ASCII; outside comments and strings after 'key =' write it as an escape");
      }
      if (byte == '\n') {
        startLine();
      } else if (within == Within::code) {
        if (!scanCode(static_cast<char>(byte))) {
          return false;
        }
      } else if (within != Within::comment) {
        scanString(static_cast<char>(byte));
      }
    }
    return true;
  }

private:
  enum class Within { code, comment, basic_string, literal_string };
  // How a line may go on to be "key = string" and nothing else.
  enum class Statement { start, key, after_key, after_equals, other };

  bool refuse(std::string message) {
    diagnostics.add(location, std::move(message));
    return false;
  }

  // Strings of one line end with it, closed or not.
  void startLine() {
    location = {location.line + 1, 0};
    within = Within::code;
    dots = 0;
    statement = depth == 0 ? Statement::start : Statement::other;
  }

  bool scanCode(char c) {
    const bool quote = c == '"' || c == '\'';
    if (c == '.' && ++dots > kMaxTomlDotsPerLine) {
      return refuse(fmt::format("more than {} dots on one line", kMaxTomlDotsPerLine));
    }
    if (quote && text.substr(at, 3) == std::string(3, c)) {
      return refuse("a multi-line string; a spec has none");
    }
    plain_value = quote && statement == Statement::after_equals;
    statement = next(c);
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (c == '#') {
      within = Within::comment;
    } else if (quote) {
      within = c == '"' ? Within::basic_string : Within::literal_string;
    }
    return true;
  }

  Statement next(char c) const {
    const bool key = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                     c == '-' || c == '.';
    const bool blank = c == ' ' || c == '\t';
    switch (statement) {
    case Statement::start:
      return blank ? Statement::start : key ? Statement::key : Statement::other;
    case Statement::key:
    case Statement::after_key:
      if (c == '=') {
        return Statement::after_equals;
      }
      return blank                                ? Statement::after_key
             : key && statement == Statement::key ? Statement::key
                                                  : Statement::other;
    case Statement::after_equals:
      return blank ? Statement::after_equals : Statement::other;
    case Statement::other:
      break;
    }
    return Statement::other;
  }

  void scanString(char c) {
    const bool escape = within == Within::basic_string && c == '\\' && at + 1 < text.size();
    if (escape && (text[at + 1] == '"' || text[at + 1] == '\\')) {
      ++at;
      ++location.column;
    } else if (c == (within == Within::basic_string ? '"' : '\'')) {
      within = Within::code;
    }
  }

  std::string_view text;
  Diagnostics &diagnostics;
  size_t at = 0;
  Location location{1, 0};
  Within within = Within::code;
  Statement statement = Statement::start;
  bool plain_value = false; // the string follows "key ="
  int64_t depth = 0;        // of brackets and braces
  size_t dots = 0;
};

} // namespace

bool scanToml(std::string_view text, Diagnostics &diagnostics) {
  if (text.size() > kMaxTomlBytes) {
    diagnostics.add({},
                    fmt::format("the file has {} bytes; a spec has at most {}", text.size(), kMaxTomlBytes));
    return false;
  }
  return Scanner(text, diagnostics).scan();
}

} // namespace smelt::spec
