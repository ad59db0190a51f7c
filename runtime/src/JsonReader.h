// Reads JSON from front to back as its caller asks for it: no tree is built, nothing recurses, and a string
// is a view of the text unless it has escapes.
//
// For headers of safetensors alone, which are read at every start: that of an 8-bit model with 5,900 tensors
// takes nlohmann's parser, which reads everything else, longer than all else up to the first token.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace smelt::runtime {

// The text is JSON as RFC 8259 has it: strings are valid UTF-8, and lone surrogates are refused. A reader
// stops for good at the first byte that breaks this: every call fails from then on. What a caller has not
// asked for has not been checked.
class JsonReader {
public:
  enum class Kind { object, list, string, number, boolean, null, invalid };

  // The text must outlive every view read; strings with escapes are kept in `decoded`, whose elements must
  // stay.
  JsonReader(std::string_view text, std::deque<std::string> &decoded) : text(text), decoded(decoded) {}

  // What the value is that comes next, by its first byte; `invalid` when none can start there.
  Kind next();
  // Goes into the object or list that comes next.
  bool enter();
  // Whether the object or list that ends with `close` has another element, before which a comma is read;
  // leaves it when not. `first` starts out true and is kept by the caller.
  bool more(char close, bool &first);
  // The name of an object's element and the colon.
  bool key(std::string_view &name) { return string(name) && take(':'); }
  bool string(std::string_view &value);
  // A number as it is written.
  bool number(std::string_view &value);
  // The number that comes next if it is a whole one below 2^64 without sign, fraction or exponent; otherwise
  // reads nothing.
  bool whole(uint64_t &value);
  // true, false or null.
  bool literal(std::string_view &value);
  // Whether nothing follows but whitespace; anything else is an error.
  bool finish();

  bool failed() const { return broken; }
  // Of the first byte that is wrong, or of the one that comes next.
  size_t position() const { return at; }

private:
  bool fail() {
    broken = true;
    return false;
  }
  void skipWhitespace() {
    while (at < text.size() &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) {
      ++at;
    }
  }
  static bool isDigit(char c) { return c >= '0' && c <= '9'; }
  bool take(char expected);
  bool decode(std::string &out);
  bool decodeEscape(std::string &out);
  bool hexDigits(uint32_t &value);
  bool checkMultibyte();
  size_t plainLength() const;
  size_t digits(size_t from) const;

  std::string_view text;
  std::deque<std::string> &decoded;
  size_t at = 0;
  bool broken = false;
};

// The calls of which there are many a tensor.

inline bool JsonReader::take(char expected) {
  if (broken) {
    return false;
  }
  skipWhitespace();
  if (at == text.size() || text[at] != expected) {
    return fail();
  }
  ++at;
  return true;
}

inline JsonReader::Kind JsonReader::next() {
  if (broken) {
    return Kind::invalid;
  }
  skipWhitespace();
  char c = at < text.size() ? text[at] : '\0';
  switch (c) {
  case '{':
    return Kind::object;
  case '[':
    return Kind::list;
  case '"':
    return Kind::string;
  case 't':
  case 'f':
    return Kind::boolean;
  case 'n':
    return Kind::null;
  default:
    if (c == '-' || isDigit(c)) {
      return Kind::number;
    }
    broken = true;
    return Kind::invalid;
  }
}

inline bool JsonReader::more(char close, bool &first) {
  if (broken) {
    return false;
  }
  skipWhitespace();
  if (at < text.size() && text[at] == close) {
    ++at;
    return false;
  }
  bool another = first || take(',');
  first = false;
  return another;
}

inline bool JsonReader::whole(uint64_t &value) {
  if (next() != Kind::number) {
    return false;
  }
  size_t end = at;
  value = 0;
  for (; end < text.size() && isDigit(text[end]); ++end) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, uint64_t(text[end] - '0'), &value)) {
      return false;
    }
  }
  char after = end < text.size() ? text[end] : '\0';
  bool leadingZero = text[at] == '0' && end - at > 1;
  if (end == at || leadingZero || after == '.' || after == 'e' || after == 'E') {
    return false;
  }
  at = end;
  return true;
}

} // namespace smelt::runtime
