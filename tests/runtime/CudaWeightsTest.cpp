// How weights reach a GPU: the packed bytes against a plain reference, hash weights against their definition.
#include "compiler/Codegen/CUDA/WeightPacking.h"
#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Splat.h"
#include "runtime/src/Text.h"
#include "runtime/src/cuda/SplatKernel.h"
#include "runtime/src/cuda/WeightUpload.h"
#include "tests/runtime/CudaSession.h"

using namespace smelt::tests;
using namespace smelt::artifact;
using namespace smelt::runtime;
using namespace smelt::runtime::cuda;

namespace {

// The packed matrix by the words of the layouts: tiles are walked as they lie, not addressed by a formula.
std::vector<uint16_t> plainPack(DeviceLayout layout, size_t rows, size_t columns,
                                const std::vector<uint16_t> &from) {
  std::vector<uint16_t> out;
  auto at = [&](size_t row, size_t column) {
    return row < rows && column < columns ? from[row * columns + column] : uint16_t(0);
  };
  if (layout != DeviceLayout::tiles) {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < (columns + 7) / 8 * 8; ++column) {
        out.push_back(at(row, column));
      }
    }
    return out;
  }
  size_t allRows = (rows + 7) / 8 * 8, allColumns = (columns + 15) / 16 * 16;
  for (size_t top = 0; top < allRows; top += 64) {
    for (size_t left = 0; left < allColumns; left += 64) {
      for (size_t blockTop = top; blockTop < std::min(top + 64, allRows); blockTop += 8) {
        for (size_t blockLeft = left; blockLeft < std::min(left + 64, allColumns); blockLeft += 8) {
          for (size_t row = blockTop; row < blockTop + 8; ++row) {
            for (size_t column = blockLeft; column < blockLeft + 8; ++column) {
              out.push_back(at(row, column));
            }
          }
        }
      }
    }
  }
  out.resize((out.size() + 63) / 64 * 64); // experts are 128 bytes apart
  return out;
}

std::vector<uint16_t> counted(size_t count) {
  std::vector<uint16_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = uint16_t(i * 7919 + 1);
  }
  return values;
}

constexpr std::pair<uint64_t, uint64_t> shapes[] = {{1, 1},    {8, 16},   {64, 64},  {63, 65}, {65, 63},
                                                    {40, 130}, {129, 72}, {72, 129}, {7, 300}};

// A manifest of weights of these shapes, every kind of layout, and their places.
struct Weights {
  Weights() {
    manifest = cudaToyManifest({1, 1});
    manifest.weights.clear();
    manifest.devices[0]->layouts.clear();
    for (auto [rows, columns] : shapes) {
      add("rows", {rows, columns}, 0, DeviceLayout::rows);
      add("tiles.{layer}.{expert}.down_proj", {rows, columns}, 3, DeviceLayout::tiles);
      add("vector_norm", {columns}, 0, DeviceLayout::vector);
      add("vector.bias", {columns}, 0, DeviceLayout::vector);
    }
    builder.Finish(Manifest::Pack(builder, &manifest));
    for (uint32_t i = 0; i < table().weights()->size(); ++i) {
      const Weight &weight = *table().weights()->Get(i);
      WeightPlace place{.shape = PackedShape(weight, manifest.devices[0]->layouts[i])};
      place.layerStride =
          roundUp(place.shape.bytes * std::max<uint32_t>(weight.experts(), 1), weightAlignment);
      place.offset = plan.weightBytes;
      plan.weightBytes += place.layerStride * std::max<uint32_t>(weight.layers(), 1);
      plan.weights.push_back(place);
    }
  }
  void add(const std::string &name, std::vector<uint64_t> shape, uint32_t experts, DeviceLayout layout) {
    auto weight = std::make_unique<WeightT>();
    weight->name = name + std::to_string(manifest.weights.size());
    weight->dtype = DType::bf16;
    weight->shape = std::move(shape);
    weight->experts = experts;
    weight->layers = experts ? 2 : 0;
    manifest.weights.push_back(std::move(weight));
    manifest.devices[0]->layouts.push_back(layout);
  }
  const Manifest &table() const { return *flatbuffers::GetRoot<Manifest>(builder.GetBufferPointer()); }

  ManifestT manifest;
  flatbuffers::FlatBufferBuilder builder;
  DevicePlan plan;
};

} // namespace

TEST_CASE("Packed weights are what the layouts say") {
  for (auto [rows, columns] : shapes) {
    for (DeviceLayout layout : {DeviceLayout::rows, DeviceLayout::tiles, DeviceLayout::vector}) {
      WeightT table;
      table.shape = {rows, columns};
      if (layout == DeviceLayout::vector) {
        table.shape = {columns};
      }
      table.name = "w";
      table.dtype = DType::bf16;
      flatbuffers::FlatBufferBuilder builder;
      builder.Finish(Weight::Pack(builder, &table));
      PackedShape shape(*flatbuffers::GetRoot<Weight>(builder.GetBufferPointer()), layout);
      std::vector<uint16_t> from = counted(shape.rows * shape.columns);
      std::vector<uint16_t> expected = plainPack(layout, shape.rows, shape.columns, from);
      INFO(rows << " x " << columns << " in layout " << int(layout));
      REQUIRE(shape.bytes == 2 * expected.size());
      std::vector<uint16_t> packed(expected.size());
      // In pieces, as the upload does.
      for (uint64_t row = 0; row < shape.rows; row += tileSize) {
        auto *out = reinterpret_cast<std::byte *>(packed.data() + row * shape.strideColumns);
        packRows(shape, from.data(), row, std::min(row + tileSize, shape.rows), out);
      }
      CHECK((packed == expected));
    }
  }
}

TEST_CASE("The runtime packs weights where the compiler's kernels look for them") {
  namespace compiler = smelt::codegen::cuda;
  for (int64_t rows : {1, 7, 8, 9, 40, 63, 64, 65, 127, 129, 616, 1848}) {
    for (int64_t columns : {1, 8, 15, 16, 17, 63, 64, 65, 100, 616, 1848}) {
      auto r = uint64_t(rows), c = uint64_t(columns);
      CHECK(rowStride(c) == uint64_t(compiler::rowStride(columns)));
      CHECK(paddedRows(r) == uint64_t(compiler::paddedRows(rows)));
      CHECK(paddedColumns(c) == uint64_t(compiler::paddedColumns(columns)));
      CHECK(expertStride(r, c) == uint64_t(compiler::expertStride(rows, columns)));
      for (int64_t i = 0; i * compiler::TILE < rows; ++i) {
        for (int64_t j = 0; j * compiler::TILE < columns; ++j) {
          CHECK(tiledOffset(r, c, uint64_t(i * compiler::TILE), uint64_t(j * compiler::TILE)) ==
                uint64_t(compiler::tileOffset(rows, columns, i, j)));
        }
      }
    }
  }
}

TEST_CASE("Hash weights are what their definition says") {
  uint64_t one[] = {4, 16};
  SplatTensor tensor = splatTensor(42, "model.layers.0.mlp.gate.weight", one);
  // Computed from the words of Splat.h in another language.
  CHECK(tensor.key == 0x97ba72b3253a0b3b);
  std::vector<uint16_t> values;
  for (uint32_t i : {0u, 1u, 2u, 63u, 0xffffffffu}) {
    values.push_back(splatValue(tensor, i));
  }
  CHECK(values == std::vector<uint16_t>{0x3eb5, 0x3e9e, 0x3f03, 0xbebf, 0x3ead});
  CHECK(splatValue(splatTensor(1, "model.norm.weight", {one, 1}), 5) == 0x3f80);
}

TEST_CASE("Hash weights have the mean and deviation asked for") {
  uint64_t shape[] = {256, 256};
  for (auto [name, deviation] : {std::pair{"model.embed_tokens.weight", 1.0},
                                 {"x.o_proj.weight", 0.1 / 16},
                                 {"x.down_proj.weight", 0.5 / 16},
                                 {"x.up_proj.weight", 1.0 / 16}}) {
    SplatTensor tensor = splatTensor(3, name, shape);
    double sum = 0, squares = 0;
    constexpr uint32_t count = 65536;
    for (uint32_t i = 0; i < count; ++i) {
      double value = std::bit_cast<float>(uint32_t(splatValue(tensor, i)) << 16);
      sum += value;
      squares += value * value;
    }
    CHECK(std::abs(sum / count) < 0.02 * deviation);
    CHECK(std::sqrt(squares / count) == Approx(deviation).epsilon(0.02));
  }
}

TEST_CASE("A GPU generates hash weights in every layout") {
  Variable library("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA);
  Weights weights;
  auto device = Device::open(0);
  REQUIRE(device.ok());
  auto stream = createStream(*device);
  auto memory = DeviceMemory::allocate(*device, weights.plan.weightBytes, "a test");
  REQUIRE(memory.ok());
  REQUIRE(
      splatWeights(*device, weights.table(), weights.plan, 99, memory->address(), stream->get(), {}).ok());
  std::vector<uint16_t> made(weights.plan.weightBytes / 2);
  (*device)->api.memcpyToHost(made.data(), memory->address(), weights.plan.weightBytes, stream->get());
  REQUIRE((*device)->api.streamSynchronize(stream->get()) == 0);
  for (uint32_t i = 0; i < weights.plan.weights.size(); ++i) {
    const Weight &weight = *weights.table().weights()->Get(i);
    const WeightPlace &place = weights.plan.weights[i];
    for (uint32_t layer = 0; layer < std::max<uint32_t>(weight.layers(), 1); ++layer) {
      for (uint32_t expert = 0; expert < std::max<uint32_t>(weight.experts(), 1); ++expert) {
        SplatTensor tensor = splatTensor(99, expandName(weight.name()->string_view(), layer, expert),
                                         {weight.shape()->data(), weight.shape()->size()});
        std::vector<uint16_t> values(place.shape.rows * place.shape.columns);
        for (uint32_t k = 0; k < values.size(); ++k) {
          values[k] = splatValue(tensor, k);
        }
        std::vector<uint16_t> expected =
            plainPack(place.shape.layout, place.shape.rows, place.shape.columns, values);
        auto begin =
            made.begin() + long((place.offset + layer * place.layerStride + expert * place.shape.bytes) / 2);
        INFO(weight.name()->str() << " layer " << layer << " expert " << expert);
        REQUIRE(std::equal(expected.begin(), expected.end(), begin));
      }
    }
  }
}

TEST_CASE("Weights cross in as many batches as the staging buffers need") {
  Variable library("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA);
  ToyShape shape{3, 2};
  CudaToySession session(shape); // opens the files
  auto artifact = Artifact::open(session.folder.path("m.smelt"));
  REQUIRE(artifact.ok());
  std::string path = session.folder.path("w.safetensors");
  auto bound = BoundWeights::bind(*artifact, std::span(&path, 1));
  REQUIRE(bound.ok());
  smelt_session_options options = CudaToySession::defaults();
  REQUIRE(resolveOptions(options).ok());
  auto plan = planDevice(**artifact, *(*artifact)->manifest().devices()->Get(0), options);
  REQUIRE(plan.ok());
  auto device = Device::open(0);
  auto stream = createStream(*device);
  std::vector<std::vector<std::byte>> results;
  for (uint64_t staging : {uint64_t(256), uint64_t(600), uint64_t(1) << 20}) {
    auto memory = DeviceMemory::allocate(*device, plan->weightBytes, "a test");
    REQUIRE(memory.ok());
    REQUIRE(uploadWeights(*device, **bound, *plan, memory->address(), stream->get(), 2, {}, staging).ok());
    std::vector<std::byte> &result = results.emplace_back(plan->weightBytes);
    (*device)->api.memcpyToHost(result.data(), memory->address(), plan->weightBytes, stream->get());
    REQUIRE((*device)->api.streamSynchronize(stream->get()) == 0);
  }
  CHECK((results[0] == results[2]));
  CHECK((results[1] == results[2]));
  CHECK(
      std::any_of(results[0].begin(), results[0].end(), [](std::byte byte) { return byte != std::byte(0); }));
}
