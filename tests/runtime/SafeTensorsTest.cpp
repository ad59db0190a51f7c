#include "runtime/src/SafeTensors.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

using namespace smelt::tests;
using namespace smelt::runtime;
using Catch::Matchers::Contains;

namespace {

AlignedBytes aligned(const std::string &file) { return AlignedBytes(std::as_bytes(std::span(file))); }

Result<SafeTensorsHeader> parse(const AlignedBytes &file) {
  return parseSafeTensors("w.safetensors", file.bytes());
}

// A header's texts lie in its file: it does not outlive it.
bool isSound(const std::string &file) { return parse(aligned(file)).ok(); }

// A file with this JSON and so many bytes of data.
std::string file(const std::string &json, size_t data = 0) {
  uint64_t length = json.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof length) + json + std::string(data, '\0');
}

std::string refusal(const std::string &bytes) {
  AlignedBytes file = aligned(bytes);
  Result<SafeTensorsHeader> header = parse(file);
  REQUIRE(!header.ok());
  CHECK(header.status().code == SMELT_weights);
  return header.status().message;
}

std::string tensor(const std::string &name, const std::string &dtype, const std::string &shape,
                   const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
         offsets + "]}";
}

} // namespace

TEST_CASE("A safetensors header is read") {
  AlignedBytes file = aligned(packSafetensors(
      {{"a", "F32", {2, 3}, std::string(24, 'a')}, {"b", "BF16", {}, "bb"}, {"empty", "F16", {0, 5}, ""}}));
  Result<SafeTensorsHeader> header = parse(file);
  REQUIRE(header.ok());
  REQUIRE(header->tensors.size() == 3);
  CHECK(header->metadata.at("format") == "pt");
  CHECK(header->tensors[0].hasShape(std::vector<uint64_t>{2, 3}));
  CHECK(header->tensors[0].begin == header->dataStart);
  CHECK(header->tensors[1].dtype == "BF16");
  CHECK(header->tensors[1].end == header->dataStart + 26);
}

TEST_CASE("Names may be escaped in the file") {
  std::string escaped = tensor("\\u0061\\/\\u00e9", "F32", "1", "0,4"),
              plain = tensor("b", "F3\\u0032", "1", "4,8");
  std::string bytes = file("{" + escaped + "," + plain + "}", 8);
  Result<SafeTensorsHeader> parsed = parseSafeTensors("w", std::as_bytes(std::span(bytes)));
  REQUIRE(parsed.ok());
  SafeTensorsHeader header = std::move(*parsed); // as it is when a file joins others
  CHECK(header.tensors[0].name == "a/\xc3\xa9");
  CHECK(header.tensors[1].dtype == "F32");
  CHECK(header.names.contains("a/\xc3\xa9"));
  CHECK(header.names.contains("b"));
  CHECK(header.tensors[1].hasShape(std::vector<uint64_t>{1}));
  CHECK_THAT(refusal(file("{" + escaped + "," + tensor("a/\xc3\xa9", "F32", "1", "4,8") + "}", 8)),
             Contains("'a/\xc3\xa9' is there twice"));
}

TEST_CASE("A malformed safetensors file is refused") {
  CHECK_THAT(refusal("1234567"), Contains("it has 7 bytes"));
  CHECK_THAT(refusal(file("{}").substr(0, 9)), Contains("the header is said to have 2 bytes, 1 follow"));
  CHECK_THAT(refusal(std::string(8, '\xff')),
             Contains("the header is said to have 18446744073709551615 bytes"));
  CHECK_THAT(refusal(file("{\"a\"")), Contains("not valid JSON at byte"));
  CHECK_THAT(refusal(file("[]")), Contains("not a JSON object"));
  CHECK_THAT(refusal(file("{\"a\":1}")), Contains("unexpected 1 at 'a'"));
  CHECK_THAT(refusal(file("{\"a\":{\"b\":{}}}")), Contains("unknown field 'b'"));
  CHECK_THAT(refusal(file("{\"a\":{\"dtype\":\"F32\"}}")),
             Contains("tensor 'a' needs dtype, shape and two data_offsets"));
  CHECK_THAT(refusal(file("{\"a\":{\"shape\":[-1]}}")), Contains("unexpected -1 at 'a.shape'"));
  CHECK_THAT(refusal(file("{\"a\":{\"shape\":[1.5]}}")), Contains("unexpected 1.5"));
  CHECK_THAT(refusal(file("{\"a\":{\"shape\":[[1]]}}")), Contains("unexpected a list"));
  CHECK_THAT(refusal(file("{\"a\":{\"shape\":[],\"shape\":[]}}")), Contains("a second field 'shape'"));
  CHECK_THAT(refusal(file("{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}")),
             Contains("more than 16 numbers"));
  CHECK_THAT(refusal(file("{" + std::string(100000, '['))), Contains("not valid JSON"));
  CHECK_THAT(refusal(file("{\"a\":{\"shape\":[18446744073709551616]}}")),
             Contains("unexpected 18446744073709551616 at 'a.shape'"));
  CHECK_THAT(refusal(file("{\"a\":{\"dtype\":null}}")), Contains("unexpected null at 'a.dtype'"));
  CHECK_THAT(refusal(file("{\"a\":{\"data_offsets\":[0,1,2]}}")), Contains("needs dtype, shape and two"));
  CHECK_THAT(refusal(file("{\"__metadata__\":[]}")), Contains("unexpected a list at '__metadata__'"));
  CHECK_THAT(refusal(file("{\"__metadata__\":{\"a\":{}}}")), Contains("an object at '__metadata__.a'"));
  CHECK_THAT(refusal(file("{\"__metadata__\":{},\"__metadata__\":{}}")), Contains("is there twice"));
  CHECK_THAT(refusal(file("{\"a\":{\"shape\":[1}}")), Contains("not valid JSON at byte 24"));
  CHECK_THAT(refusal(file("{} x")), Contains("not valid JSON at byte 11"));
  CHECK_THAT(refusal(file("{\"\xff\":{}}")), Contains("not valid JSON"));
}

TEST_CASE("Every unsound tensor of a safetensors file is listed") {
  std::string message =
      refusal(file("{" + tensor("a", "F33", "1", "0,4") + "," + tensor("b", "F32", "2", "4,8") + "," +
                       tensor("c", "F32", "1", "8,99") + "," + tensor("d", "F32", "1", "9,8") + "," +
                       tensor("e", "F32", "4294967296,4294967296", "0,0") + "}",
                   12));
  CHECK_THAT(message, Contains("5 problems"));
  CHECK_THAT(message, Contains("tensor 'a' has the unknown dtype 'F33'"));
  CHECK_THAT(message, Contains("tensor 'b' of F32 [2] needs 8 bytes, has 4"));
  CHECK_THAT(message, Contains("tensor 'c' is at bytes [8, 99) of 12 bytes of data"));
  CHECK_THAT(message, Contains("tensor 'd' is at bytes [9, 8)"));
  CHECK_THAT(message, Contains("tensor 'e' has the shape [4294967296, 4294967296], too large"));
}

TEST_CASE("Doubled, overlapping and scattered tensors are refused") {
  CHECK_THAT(
      refusal(file("{" + tensor("a", "F32", "1", "0,4") + "," + tensor("a", "F32", "1", "4,8") + "}", 8)),
      Contains("'a' is there twice"));
  CHECK_THAT(
      refusal(file("{" + tensor("a", "F32", "2", "0,8") + "," + tensor("b", "F32", "1", "4,8") + "}", 8)),
      Contains("tensor 'b' starts at byte 4 of the data, the one before it ends at 8: they overlap"));
  CHECK_THAT(refusal(file("{" + tensor("a", "F32", "1", "4,8") + "}", 8)), Contains("there is a hole"));
  CHECK_THAT(refusal(file("{" + tensor("a", "F32", "1", "0,4") + "}", 8)),
             Contains("the tensors end at byte 4 of 8 bytes of data"));
}

TEST_CASE("A safetensors file cut or flipped anywhere never does harm") {
  std::string whole = toySafetensors(toyWeights({.layers = 1, .visits = 1}));
  for (size_t size = 0; size < whole.size(); ++size) {
    REQUIRE(!isSound(whole.substr(0, size)));
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    (void)isSound(flipped); // data may change unseen
  }
}
