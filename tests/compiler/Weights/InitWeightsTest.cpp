#include "compiler/Weights/InitWeights.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Weights/ShardLayout.h"
#include "tests/support/Safetensors.h"
#include "tests/support/TempFolder.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

using namespace smelt;
using namespace smelt::weights;
using tests::TempFolder;

namespace {

// Every role, odd sizes, a dense segment, a loop.
constexpr const char *spec_text = R"(
[model]
name = "test"
vocab_size = 37
hidden_size = 24
[attention]
query_heads = 3
kv_heads = 1
head_dim = 10
qk_norm = "per_head"
qkv_bias = true
[moe]
experts = 5
top_k = 2
expert_hidden_size = 7
shared_experts = 2
shared_expert_hidden_size = 5
[mlp]
hidden_size = 33
[[segment]]
layers = 1
ffn = "dense"
[[segment]]
layers = 2
visits = 3
)";

spec::ModelSpec testSpec() {
  spec::SpecResult result = spec::parseSpec(spec_text, "test.toml");
  REQUIRE(result);
  return *result.spec;
}

InitOptions optionsFor(const std::string &path, uint64_t seed = 1, WeightDType dtype = WeightDType::f32) {
  InitOptions options;
  options.path = path;
  options.seed = seed;
  options.dtype = dtype;
  return options;
}

InitResult init(const InitOptions &options) {
  runtime::Result<InitResult> result = initWeights(testSpec(), options);
  INFO((result.ok() ? "" : result.status().message));
  REQUIRE(result.ok());
  return *result;
}

// The status with which it must fail.
runtime::Status initFailure(const InitOptions &options) {
  runtime::Result<InitResult> result = initWeights(testSpec(), options);
  REQUIRE(!result.ok());
  return result.status();
}

std::vector<std::string> filesIn(const TempFolder &folder) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

nlohmann::json headerOf(const std::string &bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return nlohmann::json::parse(bytes.substr(sizeof(length), length));
}

uint64_t dataStart(const std::string &bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  return sizeof(length) + length;
}

} // namespace

TEST_CASE("a file holds every tensor of the table, with its name and shape") {
  TempFolder folder;
  InitResult result = init(optionsFor(folder.file("w.safetensors")));
  tests::TensorMap tensors = tests::readSafetensors(folder.file("w.safetensors"));
  uint64_t expected = 0, parameters = 0;
  for (const spec::WeightDecl &decl : spec::weightTable(testSpec())) {
    int64_t elements = 1;
    for (int64_t extent : decl.shape) {
      elements *= extent;
    }
    for (int64_t layer = 0; layer < std::max<int64_t>(decl.layers, 1); ++layer) {
      for (int64_t expert = 0; expert < std::max<int64_t>(decl.experts, 1); ++expert) {
        std::string name = decl.tensorName(decl.first_layer + layer, expert);
        INFO(name);
        REQUIRE(tensors.count(name) == 1);
        CHECK(tensors[name].dtype == "F32");
        CHECK(tensors[name].shape == decl.shape);
        CHECK(tensors[name].bytes.size() == static_cast<size_t>(elements) * 4);
        ++expected;
        parameters += static_cast<uint64_t>(elements);
      }
    }
  }
  CHECK(tensors.size() == expected);
  CHECK(result.tensors == expected);
  CHECK(result.parameters == parameters);
  CHECK(result.files == std::vector<std::string>{folder.file("w.safetensors")});
  CHECK(result.bytes == std::filesystem::file_size(folder.file("w.safetensors")));
  // Physical layers only: three, although the loop executes seven.
  CHECK(tensors.count("model.layers.2.self_attn.q_proj.weight") == 1);
  CHECK(tensors.count("model.layers.3.self_attn.q_proj.weight") == 0);
}

TEST_CASE("tensors lie without gaps, aligned wherever their size allows") {
  TempFolder folder;
  for (WeightDType dtype : {WeightDType::f32, WeightDType::bf16}) {
    init(optionsFor(folder.file("w.safetensors"), 1, dtype));
    std::string bytes = tests::readBytes(folder.file("w.safetensors"));
    nlohmann::json header = headerOf(bytes);
    CHECK(header["__metadata__"]["format"] == "pt");
    CHECK(header["__metadata__"]["seed"] == "1");
    CHECK(dataStart(bytes) % 64 == 0);
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const auto &[name, entry] : header.items()) {
      if (name != "__metadata__") {
        ranges.emplace_back(entry["data_offsets"][0], entry["data_offsets"][1]);
      }
    }
    std::sort(ranges.begin(), ranges.end());
    uint64_t position = 0;
    for (auto [begin, end] : ranges) {
      CHECK(begin == position);
      CHECK((begin % 64 == 0 || (end - begin) % 64 != 0));
      position = end;
    }
    CHECK(position == bytes.size() - dataStart(bytes));
  }
}

TEST_CASE("bytes depend on seed, spec and dtype alone") {
  TempFolder folder;
  init(optionsFor(folder.file("a"), 5));
  std::string first = tests::readBytes(folder.file("a"));
  for (unsigned threads : {1U, 3U, 16U}) {
    InitOptions options = optionsFor(folder.file("b"), 5);
    options.threads = threads;
    init(options);
    CHECK(tests::readBytes(folder.file("b")) == first);
  }
  init(optionsFor(folder.file("c"), 6));
  CHECK(tests::readSafetensors(folder.file("c"))["model.norm.weight"].bytes !=
        tests::readSafetensors(folder.file("a"))["model.norm.weight"].bytes);
}

TEST_CASE("bf16 files hold the rounded values of f32 files") {
  TempFolder folder;
  init(optionsFor(folder.file("f32"), 9));
  init(optionsFor(folder.file("bf16"), 9, WeightDType::bf16));
  tests::TensorMap rounded = tests::roundedToBf16(tests::readSafetensors(folder.file("f32")));
  tests::TensorMap stored = tests::readSafetensors(folder.file("bf16"));
  REQUIRE(stored.size() == rounded.size());
  for (const auto &[name, tensor] : stored) {
    INFO(name);
    CHECK(tensor.dtype == "BF16");
    CHECK(tensor.bytes == rounded[name].bytes);
  }
}

TEST_CASE("shards hold the same tensors as one file") {
  TempFolder folder;
  init(optionsFor(folder.file("whole.safetensors")));
  InitOptions options = optionsFor(folder.file("model.safetensors"));
  options.shard_bytes = 6000;
  InitResult result = init(options);
  REQUIRE(result.files.size() == 16);
  CHECK(result.files.front() == folder.file("model.safetensors.index.json"));
  CHECK(result.files[1] == folder.file("model-00001-of-00015.safetensors"));

  nlohmann::json index = nlohmann::json::parse(tests::readBytes(result.files.front()));
  tests::TensorMap whole = tests::readSafetensors(folder.file("whole.safetensors"));
  uint64_t total = 0;
  size_t tensors = 0;
  for (size_t i = 1; i < result.files.size(); ++i) {
    std::string bytes = tests::readBytes(result.files[i]);
    CHECK(dataStart(bytes) % 64 == 0);
    CHECK(bytes.size() - dataStart(bytes) <= 6000);
    for (const auto &[name, tensor] : tests::readSafetensors(result.files[i])) {
      INFO(name);
      CHECK(tensor.bytes == whole[name].bytes);
      CHECK(index["weight_map"][name] == std::filesystem::path(result.files[i]).filename().string());
      total += tensor.bytes.size();
      ++tensors;
    }
  }
  CHECK(tensors == whole.size());
  CHECK(index["weight_map"].size() == whole.size());
  CHECK(index["metadata"]["total_size"] == total);
}

TEST_CASE("what fits one shard is one file, and a tensor larger than a shard gets one alone") {
  TempFolder folder;
  InitOptions options = optionsFor(folder.file("m.safetensors"));
  options.shard_bytes = 1 << 30;
  CHECK(init(options).files == std::vector<std::string>{folder.file("m.safetensors")});
  options.shard_bytes = 1;
  InitResult result = init(options);
  CHECK(result.files.size() == result.tensors + 1);
}

TEST_CASE("initial scales keep the residual stream dominated by the token") {
  auto deviation = [](spec::WeightRole role) { return initialDistribution({role, "", {64, 100}}).deviation; };
  CHECK(deviation(spec::WeightRole::embedding) == 1);
  CHECK(deviation(spec::WeightRole::q_proj) == Approx(0.1));
  CHECK(deviation(spec::WeightRole::router) == Approx(0.1));
  CHECK(deviation(spec::WeightRole::o_proj) == Approx(0.01));
  CHECK(deviation(spec::WeightRole::expert_down) == Approx(0.05));
  CHECK(deviation(spec::WeightRole::mlp_down) == Approx(0.05));
  CHECK(initialDistribution({spec::WeightRole::ffn_norm, "", {100}}).mean == 1);
}

TEST_CASE("an existing file is replaced, through links too, with ordinary permissions") {
  TempFolder folder;
  tests::writeBytes(folder.file("real"), "old");
  std::filesystem::create_symlink("real", folder.file("link"));
  mode_t mask = ::umask(027);
  init(optionsFor(folder.file("link")));
  ::umask(mask);
  CHECK(filesIn(folder) == std::vector<std::string>{"link", "real"});
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(tests::readSafetensors(folder.file("real")).size() > 10);
  CHECK(std::filesystem::status(folder.file("real")).permissions() == std::filesystem::perms(0640));
}

TEST_CASE("what cannot be written is refused and leaves nothing behind") {
  TempFolder folder;
  std::filesystem::create_directory(folder.file("folder"));
  struct Case {
    std::string path, message;
  };
  for (const Case &wrong :
       {Case{folder.file("missing/w"), "No such file or directory"},
        Case{folder.file("folder"), "Is a directory"}, Case{"/dev/full", "No space left on device"},
        Case{"/proc/smelt-weights", "'/proc' has 0 B free"}}) {
    runtime::Status status = initFailure(optionsFor(wrong.path));
    CHECK(status.code == SMELT_io);
    CHECK_THAT(status.message, Catch::Contains(wrong.message));
  }
  CHECK(filesIn(folder) == std::vector<std::string>{"folder"});
}

TEST_CASE("too little space is found before anything is written") {
  TempFolder folder;
  runtime::Status status = checkFreeSpace(folder.file("w"), uint64_t(1) << 62);
  CHECK(status.code == SMELT_io);
  CHECK_THAT(status.message, Catch::Contains("needs 4.00 EiB, but"));
  CHECK_THAT(status.message, Catch::Contains("free"));
  CHECK(checkFreeSpace(folder.file("w"), 1).ok());
}

TEST_CASE("cancelling leaves the old file as it was") {
  TempFolder folder;
  tests::writeBytes(folder.file("w"), "old");
  InitOptions options = optionsFor(folder.file("w"));
  options.cancelled = [] { return true; };
  CHECK(initFailure(options).code == SMELT_interrupted);
  CHECK(filesIn(folder) == std::vector<std::string>{"w"});
  CHECK(tests::readBytes(folder.file("w")) == "old");
}

TEST_CASE("progress ends at the total") {
  TempFolder folder;
  InitOptions options = optionsFor(folder.file("w"));
  options.threads = 1;
  uint64_t last = 0, total = 0;
  options.progress = [&](uint64_t done, uint64_t all) {
    CHECK(done >= last);
    last = done;
    total = all;
  };
  InitResult result = init(options);
  CHECK(last == total);
  CHECK(total == result.parameters * 4);
}
