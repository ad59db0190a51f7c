#include "compiler/Spec/TomlScan.h"

#include <fmt/format.h>

namespace smelt::spec {
namespace {

// Follows strings and comments exactly as far as the text is TOML; beyond its first error the parser does not
// go.
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
      if (byte == '\n') {
        location = {location.line + 1, 0};
        within = Within::code;
        dots = 0;
      } else if (!(within == Within::code ? scanCode(byte) : scanText(byte))) {
        return false;
      }
    }
    return true;
  }

private:
  enum class Within { code, comment, basic_string, literal_string };

  bool refuse(std::string message) {
    diagnostics.add(location, std::move(message));
    return false;
  }

  bool scanCode(unsigned char byte) {
    if (byte >= 0x80) {
      return refuse("a character beyond ASCII outside strings and comments");
    }
    if (byte == '.' && ++dots > kMaxTomlDotsPerLine) {
      return refuse(fmt::format("more than {} dots on one line", kMaxTomlDotsPerLine));
    }
    if (byte == '#') {
      within = Within::comment;
    } else if (byte == '"' || byte == '\'') {
      if (text.substr(at, 3) == std::string(3, static_cast<char>(byte))) {
        return refuse("a multi-line string; a spec has none");
      }
      within = byte == '"' ? Within::basic_string : Within::literal_string;
    }
    return true;
  }

  // Strings of one line end with it, closed or not.
  bool scanText(unsigned char byte) {
    const bool escape = within == Within::basic_string && byte == '\\' && at + 1 < text.size();
    if (escape && (text[at + 1] == '"' || text[at + 1] == '\\')) {
      ++at;
      ++location.column;
    } else if ((within == Within::basic_string && byte == '"') ||
               (within == Within::literal_string && byte == '\'')) {
      within = Within::code;
    }
    return true;
  }

  std::string_view text;
  Diagnostics &diagnostics;
  size_t at = 0;
  Location location{1, 0};
  Within within = Within::code;
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
