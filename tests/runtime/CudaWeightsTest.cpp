// How weights reach a GPU: the packed bytes against a plain reference, hash weights against their definition.
// The GPU is a look-alike.
#include "compiler/Codegen/CUDA/WeightPacking.h"
#include "runtime/schema/manifest_generated.h"
#include "runtime/src/Splat.h"
#include "runtime/src/Text.h"
#include "runtime/src/cuda/PackKernel.h"
#include "runtime/src/cuda/SplatKernel.h"
#include "runtime/src/cuda/WeightUpload.h"
#include "tests/runtime/CudaSession.h"

#include <fstream>
#include <numeric>

using namespace smelt::tests;
using namespace smelt::artifact;
using namespace smelt::runtime;
using namespace smelt::runtime::cuda;

namespace {

// The packed matrix by the words of the layouts: tiles are walked as they lie, not addressed by a formula.
// Element k of the packed matrix is element order[k] of the tensor; -1 is padding.
std::vector<int64_t> packedOrder(DeviceLayout layout, size_t rows, size_t columns) {
  std::vector<int64_t> out;
  auto add = [&](size_t row, size_t column) {
    out.push_back(row < rows && column < columns ? int64_t(row * columns + column) : -1);
  };
  if (layout != DeviceLayout::tiles) {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < (columns + 7) / 8 * 8; ++column) {
        add(row, column);
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
              add(row, column);
            }
          }
        }
      }
    }
  }
  out.resize((out.size() + 63) / 64 * 64, -1); // experts are 128 bytes apart
  return out;
}

uint64_t elementCount(std::span<const uint64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t(1), std::multiplies<>());
}

template <typename T> std::string messageOf(const Result<T> &result) {
  return result.ok() ? "" : result.status().message;
}

std::vector<uint16_t> plainPack(const PackedShape &shape, const std::vector<uint16_t> &from) {
  std::vector<uint16_t> out;
  for (int64_t from_index : packedOrder(shape.layout, shape.rows, shape.columns)) {
    out.push_back(from_index < 0 ? uint16_t(0) : from[size_t(from_index)]);
  }
  return out;
}

constexpr std::pair<uint64_t, uint64_t> shapes[] = {{1, 1},    {8, 16},   {64, 64},  {63, 65}, {65, 63},
                                                    {40, 130}, {129, 72}, {72, 129}, {7, 300}};

// Weights of these shapes in every layout, beside those of the toy model.
struct Weights {
  Weights() {
    manifest = cudaToyManifest();
    for (auto [rows, columns] : shapes) {
      add("rows", {rows, columns}, 0, DeviceLayout::rows);
      add("tiles.{layer}.{expert}.down_proj", {rows, columns}, 3, DeviceLayout::tiles);
      add("vector_norm", {columns}, 0, DeviceLayout::vector);
      add("vector.bias", {columns}, 0, DeviceLayout::vector);
    }
    std::string path = folder.write("m.smelt", packArtifact(manifest, cudaToyCode()));
    auto opened = Artifact::open(path);
    REQUIRE(messageOf(opened) == "");
    artifact = *opened;
    smelt_session_options options = CudaToySession::defaults();
    REQUIRE(resolveOptions(options).ok());
    auto planned = planDevice(*artifact, *table().devices()->Get(0), options);
    REQUIRE(planned.ok());
    plan = std::move(*planned);
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
  const Manifest &table() const { return artifact->manifest(); }

  // Calls visit(name, shape, place, its bytes into the memory of the weights) for every tensor.
  void forEachTensor(auto visit) const {
    for (uint32_t i = 0; i < plan.weights.size(); ++i) {
      const Weight &weight = *table().weights()->Get(i);
      const WeightPlace &place = plan.weights[i];
      for (uint32_t layer = 0; layer < std::max<uint32_t>(weight.layers(), 1); ++layer) {
        for (uint32_t expert = 0; expert < std::max<uint32_t>(weight.experts(), 1); ++expert) {
          visit(expandName(weight.name()->string_view(), weight.first_layer() + layer, expert),
                std::span(weight.shape()->data(), weight.shape()->size()), place.shape,
                place.offset + layer * place.layerStride + expert * place.shape.bytes);
        }
      }
    }
  }
  // What the device's memory must hold, from the values of each tensor.
  std::vector<uint16_t> packed(auto valuesOf) const {
    std::vector<uint16_t> memory(plan.weightBytes / 2);
    forEachTensor([&](const std::string &name, auto tensorShape, const PackedShape &shape, uint64_t offset) {
      std::vector<uint16_t> bytes = plainPack(shape, valuesOf(name, tensorShape));
      REQUIRE(shape.bytes == 2 * bytes.size());
      std::copy(bytes.begin(), bytes.end(), memory.begin() + long(offset / 2));
    });
    return memory;
  }
  std::string whereDiffers(const std::vector<uint16_t> &a, const std::vector<uint16_t> &b) const {
    auto at = uint64_t(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin()) * 2;
    std::string where = "nowhere";
    forEachTensor([&](const std::string &name, auto, const PackedShape &shape, uint64_t offset) {
      if (at < 2 * a.size() && offset <= at) {
        where = name + " " + std::to_string(shape.rows) + " x " + std::to_string(shape.columns) +
                ", element " + std::to_string((at - offset) / 2);
      }
    });
    return where;
  }

  TemporaryFolder folder;
  ManifestT manifest;
  std::shared_ptr<const Artifact> artifact;
  DevicePlan plan;
};

// Memory of the look-alike GPU for all weights.
struct Gpu {
  explicit Gpu(uint64_t bytes) {
    auto opened = Device::open(0);
    REQUIRE(opened.ok());
    device = *opened;
    auto made = createStream(device);
    auto allocated = DeviceMemory::allocate(device, bytes, "a test");
    REQUIRE((made.ok() && allocated.ok()));
    stream = std::move(*made);
    memory = std::move(*allocated);
  }
  std::vector<uint16_t> read() const {
    std::vector<uint16_t> values(memory.size() / 2);
    device->api.memcpyToHost(values.data(), memory.address(), memory.size(), stream.get());
    REQUIRE(device->api.streamSynchronize(stream.get()) == 0);
    return values;
  }

  Variable library{"SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA};
  DevicePointer device;
  OwnedStream stream;
  DeviceMemory memory;
};

} // namespace

TEST_CASE("The runtime packs weights where the compiler's kernels look for them") {
  namespace compiler = smelt::codegen::cuda;
  for (int64_t rows : {1, 7, 8, 9, 40, 63, 64, 65, 127, 129, 616, 1848}) {
    for (int64_t columns : {1, 8, 15, 16, 17, 63, 64, 65, 100, 616, 1848}) {
      auto r = uint64_t(rows), c = uint64_t(columns);
      CHECK(rowStride(c) == uint64_t(compiler::rowStride(columns)));
      CHECK(paddedRows(r) == uint64_t(compiler::paddedRows(rows)));
      CHECK(paddedColumns(c) == uint64_t(compiler::paddedColumns(columns)));
      CHECK(expertStride(r, c) == uint64_t(compiler::expertStride(rows, columns)));
      std::vector<int64_t> order = packedOrder(DeviceLayout::tiles, r, c);
      CHECK(expertStride(r, c) == 2 * order.size());
      for (int64_t i = 0; i * compiler::TILE < rows; ++i) {
        for (int64_t j = 0; j * compiler::TILE < columns; ++j) {
          CHECK(order[size_t(compiler::tileOffset(rows, columns, i, j))] ==
                i * compiler::TILE * columns + j * compiler::TILE);
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
  Weights weights;
  Gpu gpu(weights.plan.weightBytes);
  REQUIRE(
      splatWeights(gpu.device, weights.table(), weights.plan, 99, gpu.memory.address(), gpu.stream.get(), {})
          .ok());
  std::vector<uint16_t> expected = weights.packed([](const std::string &name, auto shape) {
    SplatTensor tensor = splatTensor(99, name, shape);
    std::vector<uint16_t> values;
    for (uint64_t k = 0, count = elementCount(shape); k < count; ++k) {
      values.push_back(splatValue(tensor, uint32_t(k)));
    }
    return values;
  });
  std::vector<uint16_t> made = gpu.read();
  INFO(weights.whereDiffers(expected, made));
  CHECK((made == expected));
}

TEST_CASE("A GPU packs the weights of files as the layouts say, whatever its buffers hold") {
  Weights weights;
  auto valuesOf = [](const std::string &name, auto shape) {
    std::vector<uint16_t> values(elementCount(shape));
    for (size_t k = 0; k < values.size(); ++k) { // none is zero, which padding is
      values[k] = uint16_t(k * 7919 + std::hash<std::string>()(name)) | 1;
    }
    return values;
  };
  std::vector<RawTensor> tensors;
  weights.forEachTensor([&](const std::string &name, auto shape, const PackedShape &, uint64_t) {
    std::vector<uint16_t> values = valuesOf(name, shape);
    tensors.push_back(
        {.name = name,
         .dtype = "BF16",
         .shape = {shape.begin(), shape.end()},
         .bytes = std::string(reinterpret_cast<const char *>(values.data()), 2 * values.size())});
  });
  std::string path = weights.folder.write("w.safetensors", packSafetensors(tensors));
  auto bound = BoundWeights::bind(weights.artifact, std::span(&path, 1));
  REQUIRE(messageOf(bound) == "");
  std::vector<uint16_t> expected = weights.packed(valuesOf);

  uint64_t fileBytes = weights.plan.memory.weights;
  uint64_t least = stagingFor(weights.plan.weights, fileBytes, 0);
  CHECK(least == 2 * 64 * 129); // 64 rows of the widest that has more
  CHECK(weights.plan.stagingBytes == roundUp(fileBytes, 16));
  // Tensors larger than a buffer; several experts in one and a piece of another; all in one.
  for (uint64_t staging : {least, uint64_t(50000), fileBytes}) {
    Gpu gpu(weights.plan.weightBytes);
    weights.plan.stagingBytes = stagingFor(weights.plan.weights, fileBytes, staging);
    Status status =
        uploadWeights(gpu.device, **bound, weights.plan, gpu.memory.address(), gpu.stream.get(), 2, {});
    REQUIRE(status.message == "");
    std::vector<uint16_t> made = gpu.read();
    INFO("buffers of " << weights.plan.stagingBytes << " bytes, " << weights.whereDiffers(expected, made));
    CHECK((made == expected));
  }
}

TEST_CASE("Loading stops when it is told to") {
  CudaToySession toy; // writes the files
  std::string path = toy.folder.path("w.safetensors");
  auto artifact = Artifact::open(toy.folder.path("m.smelt"));
  auto bound = BoundWeights::bind(*artifact, std::span(&path, 1));
  REQUIRE(messageOf(bound) == "");
  smelt_session_options options = CudaToySession::defaults();
  REQUIRE(resolveOptions(options).ok());
  auto plan = planDevice(**artifact, *(*artifact)->manifest().devices()->Get(0), options);
  REQUIRE(plan.ok());
  Gpu gpu(plan->weightBytes);
  plan->stagingBytes = stagingFor(plan->weights, plan->memory.weights, 0);
  uint64_t calls = 0, last = 0;
  auto stop = [&](uint64_t done, uint64_t total) {
    last = done;
    CHECK(total == plan->weightBytes);
    return ++calls < 3;
  };
  Status status = uploadWeights(gpu.device, **bound, *plan, gpu.memory.address(), gpu.stream.get(), 2, stop);
  CHECK(status.code == SMELT_interrupted);
  CHECK(calls == 3);
  CHECK(last > 0);
}

TEST_CASE("ptxas takes the kernels that the runtime carries, for every target, without spills or warnings") {
  const std::string ptxas = "PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$PATH; ptxas ";
  if (std::system((ptxas + "--version >/dev/null 2>&1").c_str()) != 0) {
    WARN("skipped: no ptxas in CUDA_HOME, /usr/local/cuda or PATH");
    return;
  }
  TemporaryFolder folder;
  for (auto [name, ptx] : {std::pair("splat", splatPtx()), std::pair("pack", packPtx())}) {
    std::string file = folder.write(std::string(name) + ".ptx", ptx);
    for (const char *chip : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
      std::string log = folder.path("log");
      int code =
          std::system((ptxas + "-v -arch=" + chip + " -o /dev/null " + file + " >" + log + " 2>&1").c_str());
      std::ifstream stream(log);
      std::string text(std::istreambuf_iterator<char>(stream), {});
      INFO(name << " for " << chip << ": " << text);
      CHECK(code == 0);
      CHECK_THAT(text, Catch::Contains("0 bytes spill stores, 0 bytes spill loads"));
      CHECK_THAT(text, !Catch::Contains("warning") && !Catch::Contains("C75"));
    }
  }
}
