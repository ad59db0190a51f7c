// Weights of models compiled for i8: what files may hold, and the panels that come of it.
#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Quantize.h"
#include "runtime/src/WeightLayout.h"
#include "runtime/src/WeightPacking.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace smelt::tests;
using namespace smelt::runtime;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using smelt::artifact::DType;
using smelt::artifact::WeightLayout;

namespace {

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

std::vector<uint16_t> rounded(const std::vector<float> &values) {
  std::vector<uint16_t> halves(values.size());
  roundToBf16(values.data(), halves.data(), values.size());
  return halves;
}

// Values that bf16 holds exactly, of many magnitudes.
std::vector<float> someValues(size_t count, float seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    float x = seed + float(i);
    values[i] = std::sin(1.7f * x) * std::exp2(std::fmod(x, 7.0f) - 3);
  }
  std::vector<uint16_t> halves = rounded(values);
  widenBf16(halves.data(), values.data(), count);
  return values;
}

struct Matrix {
  std::string name;
  uint64_t rows, columns;
  std::vector<float> values;
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;

  Matrix(std::string name, uint64_t rows, uint64_t columns, float seed)
      : name(std::move(name)), rows(rows), columns(columns), values(someValues(rows * columns, seed)),
        codes(rows * columns), scales(rows * quantBlocks(columns)) {
    for (uint64_t row = 0; row < rows; ++row) {
      REQUIRE(quantizeRow(&values[row * columns], columns, &codes[row * columns],
                          &scales[row * quantBlocks(columns)]));
    }
  }

  std::vector<RawTensor> asI8() const {
    return {{name, "I8", {rows, columns}, bytesOf(codes)},
            {name + "_scale", "BF16", {rows, quantBlocks(columns)}, bytesOf(scales)}};
  }
  RawTensor asF32() const { return {name, "F32", {rows, columns}, bytesOf(values)}; }
  RawTensor asBf16() const { return {name, "BF16", {rows, columns}, bytesOf(rounded(values))}; }

  // By the words of docs/artifact.md.
  std::string panels() const {
    uint64_t lines = (columns + 3) / 4 + (columns + 63) / 64;
    std::string out((rows + 15) / 16 * lines * 64, '\0');
    for (uint64_t n = 0; n < (rows + 15) / 16 * 16; ++n) {
      char *panel = out.data() + n / 16 * lines * 64;
      for (uint64_t k = 0; k < (columns + 3) / 4 * 4; ++k) {
        int code = n < rows && k < columns ? codes[n * columns + k] : 0;
        uint64_t line = k / 64 * 17 + 1 + k % 64 / 4;
        panel[line * 64 + n % 16 * 4 + k % 4] = char(code + 128);
      }
      for (uint64_t block = 0; n < rows && block < quantBlocks(columns); ++block) {
        std::memcpy(panel + block / 2 * 17 * 64 + block % 2 * 32 + n % 16 * 2,
                    &scales[n * quantBlocks(columns) + block], 2);
      }
    }
    return out;
  }
};

// The toy model with matrices of i8: the embedding and the experts; its scale vectors are bf16.
struct Fixture {
  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
  Matrix embedding{"model.embed_tokens.weight", 17, 70, 1};
  std::vector<Matrix> experts;
  std::vector<std::vector<float>> vectors;

  Fixture() {
    auto manifest = toyManifest();
    manifest.weights_dtype = DType::i8;
    auto quantize = [&](int weight, std::vector<uint64_t> shape) {
      manifest.weights[weight]->dtype = DType::i8;
      manifest.weights[weight]->layout = WeightLayout::panel16;
      manifest.weights[weight]->shape = std::move(shape);
    };
    quantize(toy::embedding, {embedding.rows, embedding.columns});
    quantize(toy::expert, {33, 32});
    manifest.weights[toy::scale]->dtype = DType::bf16;
    manifest.weights[toy::scale]->shape = {8};
    auto opened = Artifact::open(folder.write("m.smelt", packArtifact(manifest, toyCode())));
    INFO((opened.ok() ? "" : opened.status().message));
    REQUIRE(opened.ok());
    artifact = *opened;
    for (int layer = 0; layer < 3; ++layer) {
      std::string prefix = "model.layers." + std::to_string(layer);
      vectors.push_back(someValues(8, float(layer)));
      for (int expert = 0; expert < 2; ++expert) {
        std::string name = prefix + ".experts." + std::to_string(expert) + ".weight";
        experts.emplace_back(name, 33, 32, float(10 + 2 * layer + expert));
      }
    }
  }

  std::vector<RawTensor> quantized() const {
    std::vector<RawTensor> tensors = embedding.asI8();
    for (const Matrix &expert : experts) {
      for (RawTensor &tensor : expert.asI8()) {
        tensors.push_back(std::move(tensor));
      }
    }
    addVectors(tensors, "BF16");
    return tensors;
  }

  // With the matrices as they were before, in F32 or BF16, and the vectors as well.
  std::vector<RawTensor> plain(const std::string &dtype) const {
    auto as = [&](const Matrix &m) { return dtype == "F32" ? m.asF32() : m.asBf16(); };
    std::vector<RawTensor> tensors = {as(embedding)};
    for (const Matrix &expert : experts) {
      tensors.push_back(as(expert));
    }
    addVectors(tensors, dtype);
    return tensors;
  }

  void addVectors(std::vector<RawTensor> &tensors, const std::string &dtype) const {
    for (size_t layer = 0; layer < vectors.size(); ++layer) {
      tensors.push_back({"model.layers." + std::to_string(layer) + ".scale.weight",
                         dtype,
                         {8},
                         dtype == "F32" ? bytesOf(vectors[layer]) : bytesOf(rounded(vectors[layer]))});
    }
  }

  Result<std::shared_ptr<const BoundWeights>> bind(const std::vector<RawTensor> &tensors) {
    std::string file = folder.write("w.safetensors", packSafetensors(tensors));
    return BoundWeights::bind(artifact, std::vector<std::string>{file});
  }

  Result<std::shared_ptr<const PackedWeights>> pack(std::shared_ptr<const BoundWeights> bound) {
    auto pool = ThreadPool::create(2);
    REQUIRE(pool.ok());
    return PackedWeights::of(std::move(bound), **pool, {});
  }

  void expectPanels(const std::vector<RawTensor> &tensors, uint64_t unquantized) {
    auto bound = bind(tensors);
    INFO((bound.ok() ? "" : bound.status().message));
    REQUIRE(bound.ok());
    CHECK((*bound)->unquantized() == unquantized);
    auto packed = pack(*bound);
    INFO((packed.ok() ? "" : packed.status().message));
    REQUIRE(packed.ok());
    auto equals = [](const void *at, const std::string &bytes) {
      return std::memcmp(at, bytes.data(), bytes.size()) == 0;
    };
    CHECK(equals((*packed)->tensor(toy::embedding, 0), embedding.panels()));
    for (uint32_t layer = 0; layer < 3; ++layer) {
      CHECK(equals((*packed)->tensor(toy::scale, layer), bytesOf(rounded(vectors[layer]))));
      for (size_t expert = 0; expert < 2; ++expert) {
        CHECK(equals((*packed)->table(toy::expert, layer)[expert], experts[2 * layer + expert].panels()));
      }
    }
  }

  std::string refusal(const std::vector<RawTensor> &tensors) {
    auto bound = bind(tensors);
    if (!bound.ok()) {
      CHECK(bound.status().code == SMELT_weights);
      return bound.status().message;
    }
    auto packed = pack(*bound);
    REQUIRE(!packed.ok());
    CHECK(packed.status().code == SMELT_weights);
    return packed.status().message;
  }
};

RawTensor &find(std::vector<RawTensor> &tensors, const std::string &name) {
  return *std::find_if(tensors.begin(), tensors.end(),
                       [&](const RawTensor &tensor) { return tensor.name == name; });
}

const std::string expertName = "model.layers.1.experts.0.weight";

} // namespace

TEST_CASE("Panels of i8 hold every code after its scales, at any shape") {
  for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{1, 1},
                               {16, 64},
                               {17, 33},
                               {48, 7},
                               {5, 128},
                               {35, 106},
                               {16, 31},
                               {33, 425}}) {
    CAPTURE(rows, columns);
    Matrix matrix("m", rows, columns, 3);
    PanelShape shape{rows, columns, 1};
    std::string codes = "x" + bytesOf(matrix.codes), scales = "x" + bytesOf(matrix.scales);
    Memory packed = std::move(*Memory::allocate(shape.bytes(), "a test"));
    std::memset(packed.data(), 0xee, shape.bytes());
    auto pack = [&](uint64_t begin, uint64_t end) {
      packQuantPanels(shape, std::as_bytes(std::span(codes)).data() + 1,
                      std::as_bytes(std::span(scales)).data() + 1, packed.data(), begin, end);
    };
    pack(0, 1);
    pack(1, shape.panels());
    std::string expected = matrix.panels();
    REQUIRE(expected.size() == shape.bytes());
    CHECK(std::memcmp(packed.data(), expected.data(), expected.size()) == 0);
  }
}

TEST_CASE_METHOD(Fixture, "Quantised files, bf16 and f32 ones pack to the same bytes") {
  expectPanels(quantized(), 0);
  expectPanels(plain("BF16"), 7);
  expectPanels(plain("F32"), 7);
}

TEST_CASE_METHOD(Fixture, "A file may hold some matrices quantised and others not") {
  std::vector<RawTensor> tensors = quantized();
  std::erase_if(tensors, [](const RawTensor &tensor) { return tensor.name == expertName + "_scale"; });
  find(tensors, expertName) = experts[2].asF32();
  expectPanels(tensors, 1);
}

TEST_CASE_METHOD(Fixture, "Data at odd addresses is packed and rounded alike") {
  for (std::vector<RawTensor> tensors : {quantized(), plain("BF16"), plain("F32")}) {
    std::string file = packSafetensors(tensors);
    uint64_t length;
    std::memcpy(&length, file.data(), sizeof length);
    file.insert(8 + length, " "); // one more blank after the JSON
    ++length;
    std::memcpy(file.data(), &length, sizeof length);
    auto bound =
        BoundWeights::bind(artifact, std::vector<std::string>{folder.write("odd.safetensors", file)});
    REQUIRE(bound.ok());
    auto packed = pack(*bound);
    REQUIRE(packed.ok());
    std::string expected = experts[3].panels(), vector = bytesOf(rounded(vectors[2]));
    CHECK(std::memcmp((*packed)->table(toy::expert, 1)[1], expected.data(), expected.size()) == 0);
    CHECK(std::memcmp((*packed)->tensor(toy::scale, 2), vector.data(), vector.size()) == 0);
  }
}

TEST_CASE_METHOD(Fixture, "Hash weights are quantised as a file of them would be") {
  auto bound = BoundWeights::bind(artifact, std::vector<std::string>{"splat:5"});
  REQUIRE(bound.ok());
  CHECK((*bound)->unquantized() == 7);
  REQUIRE((*bound)->generate(2).ok());
  auto packed = pack(*bound);
  REQUIRE(packed.ok());
  std::vector<RawTensor> tensors;
  auto add = [&](const std::string &name, std::vector<uint64_t> shape) {
    SplatTensor splat = splatTensor(5, name, shape);
    std::vector<uint16_t> halves(shape[0] * (shape.size() > 1 ? shape[1] : 1));
    for (size_t i = 0; i < halves.size(); ++i) {
      halves[i] = splatValue(splat, uint32_t(i));
    }
    tensors.push_back({name, "BF16", shape, bytesOf(halves)});
  };
  for (const RawTensor &tensor : plain("BF16")) {
    add(tensor.name, tensor.shape);
  }
  auto fromFile = bind(tensors);
  REQUIRE(fromFile.ok());
  auto same = pack(*fromFile);
  REQUIRE(same.ok());
  PanelShape shape{33, 32, 1};
  CHECK(std::memcmp((*packed)->table(toy::expert, 2)[1], (*same)->table(toy::expert, 2)[1], shape.bytes()) ==
        0);
  CHECK(std::memcmp((*packed)->tensor(toy::scale, 1), (*same)->tensor(toy::scale, 1), 16) == 0);
}

TEST_CASE_METHOD(Fixture, "Scales must be there, of the right type and shape, and for i8 alone") {
  std::vector<RawTensor> tensors = quantized();
  find(tensors, expertName + "_scale").name = "model.layers.1.experts.0.scales";
  find(tensors, "model.layers.1.experts.1.weight_scale").shape = {1, 33};
  find(tensors, "model.layers.2.experts.0.weight_scale").dtype = "I16";
  std::erase_if(tensors, [](const RawTensor &t) { return t.name == "model.layers.2.experts.1.weight"; });
  find(tensors, "model.layers.0.experts.0.weight") = experts[0].asBf16();
  std::string message = refusal(tensors);
  CHECK_THAT(message, Contains("(7 mismatches)"));
  CHECK_THAT(message, Contains("missing:\n  'model.layers.1.experts.0.weight_scale' BF16 [33, 1]"));
  CHECK_THAT(message, Contains("'model.layers.2.experts.1.weight' I8 [33, 32]"));
  CHECK_THAT(message, Contains("'model.layers.1.experts.0.scales' BF16 [33, 1]"));
  CHECK_THAT(message, Contains("'model.layers.2.experts.1.weight_scale' BF16 [33, 1]"));
  CHECK_THAT(message, Contains("'model.layers.0.experts.0.weight_scale' BF16 [33, 1]"));
  CHECK_THAT(message,
             Contains("'model.layers.1.experts.1.weight_scale' is [1, 33], the model wants [33, 1]"));
  CHECK_THAT(message, Contains("'model.layers.2.experts.0.weight_scale' is I16, the model wants BF16"));
}

TEST_CASE_METHOD(Fixture, "Other types are refused, and what is kept in bf16 is not in 8 bits") {
  std::vector<RawTensor> tensors = quantized();
  find(tensors, expertName).dtype = "U8";
  find(tensors, "model.layers.1.scale.weight") = {"model.layers.1.scale.weight", "I8", {8}, "12345678"};
  std::string message = refusal(tensors);
  CHECK_THAT(message, Contains("'" + expertName + "' is U8, the model wants I8"));
  CHECK_THAT(message, Contains("'model.layers.1.scale.weight' is I8, the model wants BF16"));
}

TEST_CASE_METHOD(Fixture, "Values and scales that 8 bits cannot have are named") {
  std::vector<RawTensor> tensors = plain("F32");
  float bad = std::numeric_limits<float>::infinity();
  std::memcpy(find(tensors, expertName).bytes.data() + 4 * (32 * 32 + 5), &bad, 4);
  bad = 3e33f;
  std::memcpy(find(tensors, "model.embed_tokens.weight").bytes.data(), &bad, 4);
  std::string message = refusal(tensors);
  CHECK_THAT(message, Contains("cannot be used in 8 bits (2 problems)"));
  CHECK_THAT(message,
             Contains("'" + expertName + "', rows 0 to 32: a value is NaN or not below 127 * 2^88"));
  CHECK_THAT(message, Contains("'model.embed_tokens.weight', rows 0 to 16: a value is"));

  for (uint16_t scale : {uint16_t(0x8000), uint16_t(0x7fc0), uint16_t(0x7380)}) {
    tensors = quantized();
    std::memcpy(find(tensors, expertName + "_scale").bytes.data() + 64, &scale, 2);
    CHECK_THAT(refusal(tensors),
               Contains("'" + expertName + "', rows 0 to 32: a scale is negative, NaN or not"));
  }
}

TEST_CASE("An i8 file for a model of another type says what to compile for") {
  TemporaryFolder folder;
  auto artifact = Artifact::open(folder.write("m.smelt", packArtifact(toyManifest(), toyCode())));
  REQUIRE(artifact.ok());
  std::vector<RawTensor> tensors = toyTensors(toyWeights());
  RawTensor &table = find(tensors, "model.embed_tokens.weight");
  table = {table.name, "I8", table.shape, std::string(44, 'x')};
  auto bound =
      BoundWeights::bind(*artifact, std::vector<std::string>{folder.write("w", packSafetensors(tensors))});
  REQUIRE(!bound.ok());
  CHECK_THAT(bound.status().message, Contains("'model.embed_tokens.weight' is I8, the model wants F32"));
  CHECK_THAT(bound.status().message, EndsWith("fix: compile with --weights-dtype i8, or convert the file"));
}
