#include "runtime/src/Quantize.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Weights/InitWeights.h"
#include "compiler/Weights/QuantizeWeights.h"
#include "tests/support/Safetensors.h"
#include "tests/support/TempFolder.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

using namespace smelt;
using namespace smelt::weights;
using runtime::dequantizeRow;
using runtime::quantBlock;
using runtime::quantBlocks;
using runtime::quantizeRow;
using tests::StoredTensor;
using tests::TempFolder;
using tests::TensorMap;

namespace {

// Rows of 24, 30 and 7: blocks that are short and whole.
constexpr const char *spec_text = R"(
[model]
name = "test"
vocab_size = 37
hidden_size = 40
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
layers = 1
)";

float widen(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

struct Row {
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
  std::vector<float> back;
  QuantError error;
};

Row quantized(const std::vector<float> &values) {
  Row row{std::vector<int8_t>(values.size()),
          std::vector<uint16_t>(quantBlocks(values.size())),
          std::vector<float>(values.size()),
          {}};
  REQUIRE(quantizeRow(values.data(), values.size(), row.codes.data(), row.scales.data()));
  row.error.addRow(values.data(), values.size(), row.codes.data(), row.scales.data());
  dequantizeRow(row.codes.data(), row.scales.data(), values.size(), row.back.data());
  return row;
}

std::vector<float> sineRow(size_t count, float magnitude) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(magnitude * std::sin(1.7F * static_cast<float>(i) + 0.3F));
  }
  return values;
}

void initFile(const std::string &path, WeightDType dtype) {
  spec::SpecResult spec = spec::parseSpec(spec_text, "test.toml");
  REQUIRE(spec);
  InitOptions options;
  options.path = path;
  options.seed = 3;
  options.dtype = dtype;
  REQUIRE(initWeights(*spec.spec, options).ok());
}

QuantizeOptions optionsFor(const std::string &input, const std::string &output) {
  QuantizeOptions options;
  options.inputs = {input};
  options.output = output;
  return options;
}

QuantizeResult quantize(const QuantizeOptions &options) {
  runtime::Result<QuantizeResult> result = quantizeWeights(options);
  INFO((result.ok() ? "" : result.status().message));
  REQUIRE(result.ok());
  return *result;
}

runtime::Status failure(const QuantizeOptions &options) {
  runtime::Result<QuantizeResult> result = quantizeWeights(options);
  REQUIRE(!result.ok());
  CHECK(!std::filesystem::exists(options.output));
  return result.status();
}

std::vector<float> f32Values(const StoredTensor &tensor) {
  std::vector<float> values(tensor.bytes.size() / 4);
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("no weight moves by more than half a step, in blocks of every length and magnitude") {
  for (size_t count : {1, 2, 31, 32, 33, 64, 100}) {
    for (float magnitude : {1e-42F, 1e-30F, 0.02F, 1.0F, 3e4F, 3e38F}) {
      INFO("count " << count << ", magnitude " << magnitude);
      std::vector<float> values = sineRow(count, magnitude);
      Row row = quantized(values);
      for (size_t i = 0; i < count; ++i) {
        float scale = widen(row.scales[i / quantBlock]);
        CHECK(std::fabs(values[i] - row.back[i]) <= 0.5000001F * scale);
        CHECK(row.back[i] == static_cast<float>(row.codes[i]) * scale);
        CHECK(std::abs(row.codes[i]) <= 127);
      }
      CHECK(row.error.count == count);
      CHECK(row.error.largest <= 1.000001F * row.error.half_step);
    }
  }
}

TEST_CASE("a scale is the smallest bf16 that reaches the block's largest weight") {
  std::vector<float> values = sineRow(64, 0.7F);
  values[5] = 1.0F;
  values[40] = -2.0F;
  Row row = quantized(values);
  for (size_t block : {0, 1}) {
    float largest = block ? 2.0F : 1.0F;
    CHECK(127 * widen(row.scales[block]) >= largest);
    CHECK(127 * widen(static_cast<uint16_t>(row.scales[block] - 1)) < largest);
  }
  CHECK(std::abs(row.codes[5]) >= 126);
  CHECK(row.codes[40] <= -126);
}

TEST_CASE("zeros stay zeros, and a block is not touched by another's magnitude") {
  std::vector<float> values(64, 0.0F);
  values[33] = 1e20F;
  Row row = quantized(values);
  CHECK(row.scales[0] == 0);
  for (size_t i = 0; i < 64; ++i) {
    CHECK((row.codes[i] == 0) == (i != 33));
  }
  CHECK(row.error.relativeL2() < 1e-2);
}

TEST_CASE("a value that is no number fails its row") {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(40, 1.0F);
    values[38] = bad;
    std::vector<int8_t> codes(40);
    std::vector<uint16_t> scales(2);
    CHECK(!quantizeRow(values.data(), 40, codes.data(), scales.data()));
  }
}

TEST_CASE("normal weights lose about half a percent") {
  TempFolder folder;
  initFile(folder.file("in"), WeightDType::f32);
  QuantizeResult result = quantize(optionsFor(folder.file("in"), folder.file("out")));
  CHECK(result.total.relativeL2() > 1e-3);
  CHECK(result.total.relativeL2() < 8e-3);
  CHECK(result.total.largest <= result.total.half_step);
}

TEST_CASE("projections become codes with scales, the rest bf16") {
  TempFolder folder;
  initFile(folder.file("in"), WeightDType::f32);
  QuantizeResult result = quantize(optionsFor(folder.file("in"), folder.file("out")));
  TensorMap before = tests::readSafetensors(folder.file("in"));
  TensorMap after = tests::readSafetensors(folder.file("out"));
  TensorMap rounded = tests::roundedToBf16(before);
  uint64_t quantizedTensors = 0;
  for (const auto &[name, tensor] : before) {
    INFO(name);
    REQUIRE(after.count(name) == 1);
    CHECK(after[name].shape == tensor.shape);
    if (!spec::isQuantized(*spec::weightRoleOf(name))) {
      CHECK(after[name].dtype == "BF16");
      CHECK(after[name].bytes == rounded[name].bytes);
      CHECK(after.count(name + "_scale") == 0);
      continue;
    }
    ++quantizedTensors;
    auto rows = static_cast<size_t>(tensor.shape[0]), columns = static_cast<size_t>(tensor.shape[1]);
    CHECK(after[name].dtype == "I8");
    const StoredTensor &scales = after.at(name + "_scale");
    CHECK(scales.dtype == "BF16");
    CHECK(scales.shape == std::vector<int64_t>{tensor.shape[0], static_cast<int64_t>(quantBlocks(columns))});
    std::vector<float> values = f32Values(tensor), back(columns);
    for (size_t row = 0; row < rows; ++row) {
      std::vector<uint16_t> rowScales(quantBlocks(columns));
      std::memcpy(rowScales.data(), &scales.bytes[row * rowScales.size() * 2], rowScales.size() * 2);
      dequantizeRow(reinterpret_cast<const int8_t *>(&after[name].bytes[row * columns]), rowScales.data(),
                    columns, back.data());
      for (size_t i = 0; i < columns; ++i) {
        CHECK(std::fabs(values[row * columns + i] - back[i]) <=
              0.5000001F * widen(rowScales[i / quantBlock]));
      }
    }
  }
  CHECK(result.tensors == quantizedTensors);
  CHECK(result.kept == before.size() - quantizedTensors);
  CHECK(after.size() == before.size() + quantizedTensors);
  CHECK(result.rounded);
}

TEST_CASE("threads and shards change where tensors lie, not what they hold") {
  TempFolder folder;
  initFile(folder.file("in"), WeightDType::bf16);
  QuantizeOptions options = optionsFor(folder.file("in"), folder.file("a.safetensors"));
  options.threads = 1;
  QuantizeResult one = quantize(options);
  CHECK(!one.rounded);
  options.output = folder.file("b.safetensors");
  options.threads = 5;
  QuantizeResult five = quantize(options);
  CHECK(tests::readBytes(folder.file("a.safetensors")) == tests::readBytes(folder.file("b.safetensors")));
  CHECK(one.total.errors == five.total.errors);

  options.output = folder.file("c.safetensors");
  options.shard_bytes = 2000;
  QuantizeResult shards = quantize(options);
  REQUIRE(shards.files.size() > 2);
  TensorMap joined;
  for (size_t i = 1; i < shards.files.size(); ++i) {
    joined.merge(tests::readSafetensors(shards.files[i]));
  }
  TensorMap whole = tests::readSafetensors(folder.file("a.safetensors"));
  REQUIRE(joined.size() == whole.size());
  for (const auto &[name, tensor] : whole) {
    CHECK(joined[name].bytes == tensor.bytes);
  }
  // Shards are an input like any other; a quantised one is refused.
  CHECK(contains(failure(optionsFor(shards.files[0], folder.file("d"))).message, "quantised already"));
}

TEST_CASE("a head that repeats the embedding is left out") {
  TempFolder folder;
  initFile(folder.file("in"), WeightDType::bf16);
  TensorMap tensors = tests::readSafetensors(folder.file("in"));
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  tests::writeSafetensors(folder.file("tied"), tensors);
  quantize(optionsFor(folder.file("tied"), folder.file("out")));
  CHECK(tests::readSafetensors(folder.file("out")).count("lm_head.weight") == 0);
}

TEST_CASE("what cannot be quantised is listed at once, and nothing is written") {
  TempFolder folder;
  initFile(folder.file("in"), WeightDType::f32);
  TensorMap tensors = tests::readSafetensors(folder.file("in"));
  std::string q = "model.layers.0.self_attn.q_proj.weight", k = "model.layers.0.self_attn.k_proj.weight";

  SECTION("names, types, ranks") {
    tensors["model.layers.0.self_attn.other.weight"] = tensors[q];
    tensors[q].dtype = "I32";
    tensors[k].shape = {static_cast<int64_t>(tensors[k].bytes.size() / 4)};
    tests::writeSafetensors(folder.file("bad"), tensors);
    runtime::Status status = failure(optionsFor(folder.file("bad"), folder.file("out")));
    CHECK(status.code == SMELT_weights);
    CHECK(contains(status.message, "3 problems"));
    CHECK(contains(status.message, "other.weight' is no tensor of a spec"));
    CHECK(contains(status.message, "q_proj.weight' is I32, only F32 and BF16 can be quantised"));
    CHECK(contains(status.message, "k_proj.weight' has the shape [400], a matrix is expected"));
  }
  SECTION("values") {
    float bad = std::numeric_limits<float>::infinity();
    std::memcpy(&tensors[q].bytes[4 * 45], &bad, 4); // row 1, column 5
    std::memcpy(tensors[k].bytes.data(), &bad, 4);
    tests::writeSafetensors(folder.file("bad"), tensors);
    runtime::Status status = failure(optionsFor(folder.file("bad"), folder.file("out")));
    CHECK(status.code == SMELT_weights);
    CHECK(contains(status.message, "2 tensors"));
    CHECK(contains(status.message, q + "', row 1"));
  }
  SECTION("the input itself as the output") {
    runtime::Result<QuantizeResult> result =
        quantizeWeights(optionsFor(folder.file("in"), folder.file("in")));
    REQUIRE(!result.ok());
    CHECK(result.status().code == SMELT_io);
    CHECK(contains(result.status().message, "is read from"));
    CHECK(tests::readSafetensors(folder.file("in")).size() == tensors.size());
  }
  SECTION("an interruption") {
    QuantizeOptions options = optionsFor(folder.file("in"), folder.file("out"));
    options.cancelled = [] { return true; };
    CHECK(failure(options).code == SMELT_interrupted);
  }
}
