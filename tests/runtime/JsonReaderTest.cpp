// The reader beside nlohmann's parser, which judges what is JSON and what it says.
#include "runtime/src/JsonReader.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <optional>

using namespace smelt::runtime;
using nlohmann::json;

namespace {

constexpr int maxDepth = 20;
const json tooLarge = "a number beyond f64, which nlohmann's parser refuses";

json readValue(JsonReader &in, int depth) {
  using Kind = JsonReader::Kind;
  std::string_view text;
  Kind kind = in.next();
  json value;
  switch (kind) {
  case Kind::object:
  case Kind::list: {
    value = kind == Kind::object ? json::object() : json::array();
    REQUIRE(depth < maxDepth);
    REQUIRE(in.enter());
    for (bool first = true; in.more(kind == Kind::object ? '}' : ']', first) && !in.failed();) {
      if (kind == Kind::list) {
        value.push_back(readValue(in, depth + 1));
      } else if (in.key(text)) {
        std::string name(text);
        value[name] = readValue(in, depth + 1);
      }
    }
    return value;
  }
  case Kind::string:
    return in.string(text) ? json(std::string(text)) : json();
  case Kind::number:
    if (in.number(text)) {
      value = json::parse(text, nullptr, false);
      return value.is_discarded() ? tooLarge : value;
    }
    return json();
  case Kind::boolean:
  case Kind::null:
    return in.literal(text) ? json::parse(text) : json();
  case Kind::invalid:
    break;
  }
  return json();
}

// What the reader makes of a text; nullopt when it refuses it.
std::optional<json> read(std::string_view text) {
  std::deque<std::string> decoded;
  std::vector<char> exact(text.begin(), text.end()); // so that a sanitizer sees a read past the end
  JsonReader in({exact.data(), exact.size()}, decoded);
  json value = readValue(in, 0);
  in.finish();
  CHECK(in.position() <= text.size());
  return in.failed() ? std::nullopt : std::optional(value);
}

void compare(std::string_view text) {
  INFO(text);
  json expected = json::parse(text, nullptr, false);
  std::optional<json> value = read(text);
  // A zero byte ends nlohmann's input, and a byte order mark may start it: neither is in the grammar.
  bool lenient = text.find('\0') != text.npos || text.starts_with("\xef\xbb\xbf");
  bool strict = value && value->dump().find(std::string(tooLarge)) != std::string::npos;
  if (strict) {
    return;
  }
  if (!lenient || value) {
    REQUIRE(value.has_value() == !expected.is_discarded());
  }
  if (value) {
    REQUIRE(*value == expected);
  }
}

const char *const samples[] = {
    R"({"model.layers.0.mlp.experts.11.gate_proj.weight":{"dtype":"BF16","shape":[576,64],"data_offsets":[0,73728]}})",
    R"( { "a" : [ 1 , -0 , 0.5 , 1e9 , -1.25E-3 , 2e+2 ] , "b" : { } , "c" : [ ] } )",
    R"({"\u0041\n\t\"\\\/\b\f\r":"\ud83d\ude00","plain":"a name that is longer than a word"})",
    "{\"\xc3\xa9\xe2\x82\xac\":[true,false,null,\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"]}",
    R"([[[["deep"]]],"",{"":""},"1234567","12345678","123456789"])",
};

} // namespace

TEST_CASE("JSON is read as written") {
  for (const char *sample : samples) {
    REQUIRE(read(sample).has_value());
    compare(sample);
  }
  for (const char *text : {"0", "-1", "true", "null", "\"\"", " [] ", "18446744073709551615", "1E400"}) {
    REQUIRE(read(text).has_value());
  }
}

TEST_CASE("Whole numbers are told from others") {
  std::deque<std::string> decoded;
  uint64_t value;
  std::string_view text;
  for (const char *whole : {"0", " 7", "18446744073709551615", "10 "}) {
    JsonReader in(whole, decoded);
    CHECK((in.whole(value) && value == std::stoull(whole) && in.finish()));
  }
  for (const char *other :
       {"-0", "-1", "1.0", "1e2", "1E2", "18446744073709551616", "99999999999999999999"}) {
    JsonReader in(other, decoded);
    CHECK(!in.whole(value));
    CHECK((in.number(text) && text == other && in.finish())); // it is still there
  }
  for (const char *none : {"01", "00", "\"1\"", "[1]", "", "x", "-"}) {
    JsonReader in(none, decoded);
    CHECK(!in.whole(value));
  }
}

TEST_CASE("What is not JSON is refused") {
  for (const char *text : {"",
                           " ",
                           "{",
                           "}",
                           "[1,]",
                           "[,1]",
                           "[1 2]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{1:1}",
                           "[1}",
                           "{\"a\":1]",
                           "[]]",
                           "{} {}",
                           "01",
                           "-",
                           "+1",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "-a",
                           "tru",
                           "True",
                           "nul",
                           "NaN",
                           "Infinity",
                           "'a'",
                           "\"",
                           "\"\\\"",
                           "\"\\x41\"",
                           "\"\\u12g4\"",
                           "\"\\u123\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\ud800x\"",
                           "\"a\nb\"",
                           "\"\x1f\"",
                           "\"\x80\"",
                           "\"\xc0\xaf\"",
                           "\"\xc1\xbf\"",
                           "\"\xe0\x80\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf0\x80\x80\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\"\xf5\x80\x80\x80\"",
                           "\"\xe2\x82\"",
                           "\"\xe2\x82",
                           "/* */ 1",
                           "[1] // no"}) {
    INFO(text);
    CHECK(!read(text).has_value());
    compare(text);
  }
  CHECK(!read(std::string_view("1\0", 2)).has_value());
  CHECK(!read("\xef\xbb\xbf{}").has_value());
}

TEST_CASE("JSON cut or changed anywhere is judged as nlohmann's parser judges it") {
  for (std::string_view sample : samples) {
    for (size_t size = 0; size < sample.size(); ++size) {
      compare(sample.substr(0, size));
    }
    for (size_t at = 0; at < sample.size(); ++at) {
      std::string changed(sample);
      for (char c :
           std::string_view("\0\x1f\" \\/,:[]{}019-+.eEtfnu\x7f\x80\xbf\xc2\xe0\xed\xf0\xf4\xff", 32)) {
        changed[at] = c;
        compare(changed);
      }
      changed.erase(at, 1);
      compare(changed);
    }
  }
}
