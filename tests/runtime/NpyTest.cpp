#include "runtime/src/Npy.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

using namespace smelt::tests;
using namespace smelt::runtime;
using Catch::Matchers::Contains;

namespace {

Result<NpyArray> parse(const std::string &file) {
  AlignedBytes bytes(std::as_bytes(std::span(file)));
  return parseNpy("a.npy", bytes.bytes());
}

std::string file(const std::string &dict, size_t data = 0) {
  return std::string("\x93NUMPY\x01\x00", 8) + char(dict.size()) + char(0) + dict + std::string(data, '\0');
}

std::string refusal(const std::string &bytes) {
  Result<NpyArray> array = parse(bytes);
  REQUIRE(!array.ok());
  CHECK(array.status().code == SMELT_input);
  return array.status().message;
}

} // namespace

TEST_CASE("What is written as .npy is read back") {
  for (NpyType type : {NpyType::f32, NpyType::i32, NpyType::i64}) {
    for (const std::vector<uint64_t> &shape :
         std::vector<std::vector<uint64_t>>{{5}, {2, 3}, {0}, {2, 3, 4}}) {
      std::string header = npyHeader(type, shape);
      CHECK(header.size() % 64 == 0);
      size_t count = 1;
      for (uint64_t dim : shape) {
        count *= dim;
      }
      std::string bytes = header + std::string(count * (type == NpyType::i64 ? 8 : 4), 'x');
      Result<NpyArray> array = parse(bytes);
      REQUIRE(array.ok());
      CHECK(array->type == type);
      CHECK(array->shape == shape);
      CHECK(array->data.size() == bytes.size() - header.size());
    }
  }
}

TEST_CASE("A header as NumPy writes it") {
  CHECK(npyHeader(NpyType::f32, std::vector<uint64_t>{257, 32768}).substr(10) ==
        "{'descr': '<f4', 'fortran_order': False, 'shape': (257, 32768), }" +
            std::string(128 - 10 - 66, ' ') + "\n");
  CHECK(parse(file("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }\n", 12)).ok());
  CHECK(parse(file("{\"shape\":(3,),\"fortran_order\":True,\"descr\":\"<i4\"}", 12)).ok());
}

TEST_CASE("Unusable .npy files are refused") {
  CHECK_THAT(refusal(""), Contains("magic string"));
  CHECK_THAT(refusal("PK\x03\x04 and so on"), Contains("magic string"));
  CHECK_THAT(refusal("\x93NUMPY\x04 and so on"), Contains("format version 4"));
  CHECK_THAT(refusal(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12)),
             Contains("said to have 65535 bytes, 2 follow"));
  CHECK_THAT(refusal(file("{'descr': '<f4'}")),
             Contains("not a dictionary of descr, fortran_order and shape"));
  CHECK_THAT(refusal(file("{'descr': '<f4', 'x': 1}")), Contains("not a dictionary"));
  CHECK_THAT(refusal(file("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 8)),
             Contains("its type is '<f8'"));
  CHECK_THAT(refusal(file("{'descr': '>i4', 'fortran_order': False, 'shape': (1,)}", 4)),
             Contains("its type is '>i4'"));
  CHECK_THAT(refusal(file("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2)}", 16)),
             Contains("Fortran order"));
  CHECK_THAT(refusal(file("{'descr': '<i4', 'fortran_order': False, 'shape': ()}", 4)),
             Contains("0 dimensions"));
  CHECK_THAT(refusal(file("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", 4)),
             Contains("needs 8 bytes of data, 4 follow"));
  CHECK_THAT(refusal(file("{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}")),
             Contains("too large"));
  CHECK_THAT(refusal(file("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}")),
             Contains("not a dictionary"));
}

TEST_CASE("A .npy file cut or flipped anywhere never does harm") {
  std::string whole = npyHeader(NpyType::i32, std::vector<uint64_t>{2, 3}) + std::string(24, 'x');
  for (size_t size = 0; size < whole.size(); ++size) {
    REQUIRE(!parse(whole.substr(0, size)).ok());
  }
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
    (void)parse(flipped);
  }
}
