// Sound safetensors files are read; every other one is refused with all its problems.
#include "compiler/Import/CheckpointWeights.h"
#include "tests/support/TempFolder.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <fstream>

using namespace smelt;
using namespace smelt::checkpoint;
using mlir::smelt::interpreter::WeightElement;

namespace {

std::string safeTensors(const std::string &json, const std::string &data) {
  std::string size(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(size.data(), &length, 8);
  return size + json + data;
}

std::string writeFile(const tests::TempFolder &folder, const std::string &name, const std::string &bytes) {
  std::ofstream(folder.file(name), std::ios::binary) << bytes;
  return folder.file(name);
}

// The problems of a file of these bytes, without its path, one per line; empty when it is sound.
std::string problemsOf(const std::string &bytes, smelt_status expected = SMELT_weights) {
  tests::TempFolder folder;
  const std::string path = writeFile(folder, "x.safetensors", bytes);
  ReadResult<SafeTensorsFile> file = SafeTensorsFile::open(path);
  auto *error = std::get_if<ReadError>(&file);
  if (!error) {
    return {};
  }
  CHECK(error->status == expected);
  std::string message = error->message;
  for (size_t at; (at = message.find(path + ": ")) != std::string::npos;) {
    message.erase(at, path.size() + 2);
  }
  return message;
}

const std::string kTwoTensors =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
    R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}   )";

std::string floats(std::initializer_list<float> values) {
  return std::string(reinterpret_cast<const char *>(std::data(values)), values.size() * sizeof(float));
}

} // namespace

TEST_CASE("a sound file gives tensors, metadata and its size") {
  tests::TempFolder folder;
  // bf16 1.5 and -2 are the upper halves of 0x3fc00000 and 0xc0000000.
  const std::string data = std::string("\xc0\x3f\x00\xc0", 4) + floats({1, 2, 3, 0.1f});
  auto file = SafeTensorsFile::open(writeFile(folder, "x.safetensors", safeTensors(kTwoTensors, data)));
  REQUIRE(std::holds_alternative<SafeTensorsFile>(file));
  const auto &sound = std::get<SafeTensorsFile>(file);
  CHECK(sound.fileSize() == 8 + kTwoTensors.size() + 20);
  CHECK(sound.metadata().at("format") == "pt");
  REQUIRE(sound.tensors().size() == 2);
  CHECK(sound.tensors().at("a").dtype == "F32");
  CHECK(sound.tensors().at("a").shape == std::vector<int64_t>{2, 2});
  CHECK(sound.tensors().at("a").bytes.size() == 16);

  auto opened = Checkpoint::open(folder.file("x.safetensors"));
  REQUIRE(std::holds_alternative<Checkpoint>(opened));
  CheckpointWeights weights(std::get<Checkpoint>(opened));
  std::string error;
  CHECK(weights.read("a", {2, 2}, WeightElement::f32, error) == std::vector<double>{1, 2, 3, 0.1f});
  CHECK(weights.read("b", {2}, WeightElement::bf16, error) == std::vector<double>{1.5, -2});
  CHECK(error.empty());
  CHECK(!weights.read("c", {2}, WeightElement::bf16, error));
  CHECK(error == "there is no such tensor");
  CHECK(!weights.read("a", {4}, WeightElement::f32, error));
  CHECK(error == "the file has F32 [2, 2], but the model needs F32 [4]");
  CHECK(!weights.read("b", {2}, WeightElement::f32, error));
  CHECK(error == "the file has BF16 [2], but the model needs F32 [2]");
}

TEST_CASE("8-bit codes are read as their products with the scales of their blocks") {
  tests::TempFolder folder;
  std::string codes(2 * 33, '\0');
  codes[0] = 2;
  codes[32] = -3;
  codes[33 + 31] = 127;
  // [[1.5, -2], [0.5, 1]]
  const std::string scales("\xc0\x3f\x00\xc0\x00\x3f\x80\x3f", 8);
  const std::string header = R"({"w":{"dtype":"I8","shape":[2,33],"data_offsets":[0,66]},)"
                             R"("w_scale":{"dtype":"BF16","shape":[2,2],"data_offsets":[66,74]},)"
                             R"("x":{"dtype":"I8","shape":[1,1],"data_offsets":[74,75]}})";
  writeFile(folder, "q.safetensors", safeTensors(header, codes + scales + "1"));
  auto opened = Checkpoint::open(folder.file("q.safetensors"));
  REQUIRE(std::holds_alternative<Checkpoint>(opened));
  CheckpointWeights weights(std::get<Checkpoint>(opened));
  std::string error;
  auto values = weights.read("w", {2, 33}, WeightElement::i8, error);
  REQUIRE(values);
  CHECK((*values)[0] == 3);
  CHECK((*values)[1] == 0);
  CHECK((*values)[32] == 6);
  CHECK((*values)[33 + 31] == 63.5);
  CHECK(!weights.read("x", {1, 1}, WeightElement::i8, error));
  CHECK(error == "its scales: there is no such tensor");
}

TEST_CASE("a scalar, an empty tensor and a file without tensors are sound") {
  CHECK(problemsOf(safeTensors(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", "1234")) == "");
  CHECK(problemsOf(safeTensors(R"({"e":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]}})", "")) == "");
  CHECK(problemsOf(safeTensors("{}", "")) == "");
}

TEST_CASE("files that are not safetensors are refused") {
  CHECK(problemsOf("1234567") ==
        "is not a safetensors file: it has 7 bytes, the header alone takes 8 and more");
  CHECK(problemsOf(safeTensors("{}", "").substr(0, 9)) ==
        "is truncated or not a safetensors file: its header takes 2 bytes, but only 1 follow");
  CHECK(problemsOf(std::string(16, '\xff')) == "is truncated or not a safetensors file: its header takes "
                                               "18446744073709551615 bytes, but only 8 follow");
  CHECK(problemsOf(safeTensors("[1]", "")) == "the header is not a JSON object");
  CHECK(problemsOf(safeTensors("{\"a\":", "")) == "the header is not a JSON object");
  CHECK(problemsOf(safeTensors("", "")) == "the header is not a JSON object");
  tests::TempFolder folder;
  auto missing = SafeTensorsFile::open(folder.file("missing"));
  REQUIRE(std::holds_alternative<ReadError>(missing));
  CHECK(std::get<ReadError>(missing).status == SMELT_io);
  CHECK(std::get<ReadError>(missing).message ==
        folder.file("missing") + ": cannot be read: No such file or directory");
  auto directory = SafeTensorsFile::open(folder.path().string());
  REQUIRE(std::holds_alternative<ReadError>(directory));
  CHECK(std::get<ReadError>(directory).message == folder.path().string() + ": is not a regular file");
}

TEST_CASE("every truncation of a sound file is refused") {
  const std::string bytes = safeTensors(kTwoTensors, std::string(20, 'x'));
  REQUIRE(problemsOf(bytes) == "");
  for (size_t size = 0; size < bytes.size(); ++size) {
    INFO("size " << size);
    CHECK(problemsOf(bytes.substr(0, size)) != "");
  }
}

TEST_CASE("all problems of a header come at once") {
  const std::string json = R"({"__metadata__":{"n":1},)"
                           R"("a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]},)"
                           R"("b":{"dtype":"F32","shape":[1]},)"
                           R"("c":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]},)"
                           R"("d":{"dtype":"F32","shape":[2],"data_offsets":[0,4]},)"
                           R"("e":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]},)"
                           R"("f":{"dtype":"F32","shape":[1],"data_offsets":[4,0]},)"
                           R"("g":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                           R"("g":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  CHECK(problemsOf(safeTensors(json, "1234")) ==
        "'g' appears twice in the header\n"
        "'__metadata__' needs texts by name\n"
        "'a' has the unknown dtype 'F33'\n"
        "'b' needs exactly dtype, shape and data_offsets\n"
        "'c' needs a text as dtype, sizes as shape and two sizes as data_offsets\n"
        "'d' has data_offsets [0, 4], but its shape and dtype take 8 bytes\n"
        "'e' has data_offsets [0, 4], but its shape and dtype take more than 2^64 bytes\n"
        "'f' has data_offsets [4, 0], but its shape and dtype take 4 bytes");
}

TEST_CASE("tensors cover the data without holes or overlaps") {
  auto two = [](const char *first, const char *second) {
    return std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)") + first +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  CHECK(problemsOf(safeTensors(two("[0,4]", "[4,8]"), "12345678")) == "");
  CHECK(problemsOf(safeTensors(two("[0,4]", "[2,6]"), "123456")) ==
        "'b' starts at byte 2 of the data, but the tensors before it end at 4");
  CHECK(problemsOf(safeTensors(two("[6,10]", "[0,4]"), "1234567890")) ==
        "'a' starts at byte 6 of the data, but the tensors before it end at 4");
  CHECK(problemsOf(safeTensors(two("[0,4]", "[4,8]"), "1234567890")) ==
        "the tensors take 8 bytes, but the file has 10 bytes of data");
  CHECK(problemsOf(safeTensors(two("[0,4]", "[4,8]"), "123456")) ==
        "the tensors take 8 bytes, but the file has 6 bytes of data");
}

TEST_CASE("an index names files beside it") {
  tests::TempFolder folder;
  auto one = [](const char *name) {
    return safeTensors(std::string("{\"") + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                       floats({7}));
  };
  writeFile(folder, "1.safetensors", one("a"));
  writeFile(folder, "2.safetensors", one("b"));
  auto messageOf = [&](const std::string &index) {
    const std::string path = writeFile(folder, "index.json", index);
    auto result = Checkpoint::open(path);
    auto *error = std::get_if<ReadError>(&result);
    return error ? error->message.substr(path.size() + 2) : std::string();
  };
  CHECK(messageOf(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})") == "");
  auto opened = Checkpoint::open(folder.file("index.json"));
  CHECK(std::get<Checkpoint>(opened).files().size() == 2);
  CHECK(std::get<Checkpoint>(opened).tensors().count("b") == 1);

  CHECK(messageOf("{}") == "is not an index of safetensors files: it has no weight_map");
  CHECK(messageOf("not json") == "is not an index of safetensors files: it has no weight_map");
  CHECK(messageOf(R"({"weight_map":{"a":"../1.safetensors"}})") ==
        "'a' needs the name of a file in the same folder");
  CHECK(messageOf(R"({"weight_map":{"a":1}})") == "'a' needs the name of a file in the same folder");
  CHECK(messageOf(R"({"weight_map":{"a":"1.safetensors","c":"2.safetensors"}})") ==
        "'c' is not in 2.safetensors, where the index says");
  writeFile(folder, "2.safetensors", one("a"));
  CHECK(messageOf(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})") ==
        "'a' is in two files, the second being " + folder.file("2.safetensors") + "\n" +
            folder.file("index.json") + ": 'b' is not in 2.safetensors, where the index says");
}
