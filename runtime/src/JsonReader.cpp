#include "runtime/src/JsonReader.h"

#include <bit>
#include <cstring>

namespace smelt::runtime {
namespace {

// Bytes that may stand in a string as they are and need no second look: ASCII other than quote, backslash and
// control characters.
bool isPlain(char c) {
  auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

// The high bit of each of eight bytes that is not plain; right at least up to the first of them, which is all
// that counts.
uint64_t notPlain(uint64_t word) {
  constexpr uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
  auto equals = [&](unsigned char c) {
    uint64_t difference = word ^ (ones * c);
    return (difference - ones) & ~difference;
  };
  uint64_t control = (word - ones * 0x20) & ~word;
  return (equals('"') | equals('\\') | control | word) & highs;
}

void appendUtf8(std::string &out, uint32_t code) {
  auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    add(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  } else {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3f));
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  }
}

} // namespace

bool JsonReader::enter() {
  Kind kind = next();
  return kind == Kind::object || kind == Kind::list ? take(text[at]) : fail();
}

bool JsonReader::string(std::string_view &value) {
  if (!take('"')) {
    return false;
  }
  size_t length = plainLength();
  if (at + length < text.size() && text[at + length] == '"') {
    value = text.substr(at, length);
    at += length + 1;
    return true;
  }
  std::string &whole = decoded.emplace_back();
  if (!decode(whole)) {
    return fail();
  }
  value = whole;
  return true;
}

// Of the plain bytes that come next.
size_t JsonReader::plainLength() const {
  size_t end = at;
  if constexpr (std::endian::native == std::endian::little) {
    for (uint64_t word; end + sizeof word <= text.size(); end += sizeof word) {
      std::memcpy(&word, text.data() + end, sizeof word);
      if (uint64_t stops = notPlain(word)) {
        return end - at + size_t(std::countr_zero(stops)) / 8;
      }
    }
  }
  while (end < text.size() && isPlain(text[end])) {
    ++end;
  }
  return end - at;
}

// The rest of a string, after its opening quote.
bool JsonReader::decode(std::string &out) {
  while (true) {
    size_t length = plainLength();
    out.append(text, at, length);
    at += length;
    if (at == text.size()) {
      return false;
    }
    size_t begin = at;
    if (text[at] == '"') {
      ++at;
      return true;
    }
    if (text[at] == '\\') {
      if (!decodeEscape(out)) {
        return false;
      }
    } else if (checkMultibyte()) {
      out.append(text, begin, at - begin);
    } else {
      return false;
    }
  }
}

bool JsonReader::decodeEscape(std::string &out) {
  constexpr std::string_view escapes = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  if (++at == text.size()) {
    return false;
  }
  if (size_t index = escapes.find(text[at]); index != escapes.npos) {
    out += meanings[index];
    ++at;
    return true;
  }
  uint32_t code = 0, low = 0;
  if (text[at] != 'u' || !hexDigits(code)) {
    return false;
  }
  if (code >= 0xd800 && code < 0xe000) { // half of a character
    bool paired = code < 0xdc00 && text.substr(at).starts_with("\\u") && (++at, hexDigits(low)) &&
                  low >= 0xdc00 && low < 0xe000;
    if (!paired) {
      return false;
    }
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  appendUtf8(out, code);
  return true;
}

// Four of them, after the 'u' at the current place.
bool JsonReader::hexDigits(uint32_t &value) {
  value = 0;
  ++at;
  for (int i = 0; i < 4; ++i, ++at) {
    char c = at < text.size() ? text[at] : '\0';
    char lower = static_cast<char>(c | 0x20);
    if (isDigit(c)) {
      value = value * 16 + uint32_t(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + uint32_t(lower - 'a') + 10;
    } else {
      return false;
    }
  }
  return true;
}

// A character of several bytes, by the table of well-formed sequences in RFC 3629: neither overlong, nor a
// surrogate, nor past U+10FFFF.
bool JsonReader::checkMultibyte() {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  unsigned lead = byte(at);
  int following = lead >= 0xc2 && lead <= 0xdf   ? 1
                  : lead >= 0xe0 && lead <= 0xef ? 2
                  : lead >= 0xf0 && lead <= 0xf4 ? 3
                                                 : 0;
  if (following == 0) {
    return false;
  }
  unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (++at; following > 0; --following, ++at) {
    if (byte(at) < low || byte(at) > high) {
      return false;
    }
    low = 0x80;
    high = 0xbf;
  }
  return true;
}

// How many digits there are from here.
size_t JsonReader::digits(size_t from) const {
  size_t end = from;
  while (end < text.size() && isDigit(text[end])) {
    ++end;
  }
  return end - from;
}

bool JsonReader::number(std::string_view &value) {
  if (next() != Kind::number) {
    return fail();
  }
  size_t begin = at, end = at;
  auto is = [&](char c) { return end < text.size() && text[end] == c; };
  auto takeDigits = [&] {
    size_t count = digits(end);
    end += count;
    return count > 0;
  };
  end += is('-');
  bool sound = is('0') ? (++end, true) : takeDigits();
  if (sound && is('.')) {
    ++end;
    sound = takeDigits();
  }
  if (sound && (is('e') || is('E'))) {
    ++end;
    end += is('+') || is('-');
    sound = takeDigits();
  }
  at = end;
  value = text.substr(begin, end - begin);
  return sound || fail();
}

bool JsonReader::literal(std::string_view &value) {
  next();
  for (std::string_view word : {"true", "false", "null"}) {
    if (!broken && text.substr(at).starts_with(word)) {
      value = word;
      at += word.size();
      return true;
    }
  }
  return fail();
}

bool JsonReader::finish() {
  skipWhitespace();
  return (!broken && at == text.size()) || fail();
}

} // namespace smelt::runtime
