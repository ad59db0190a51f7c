// The seed corpora of tests/fuzz. `runtime-files "[corpus]"` writes them again, after a change of a format.
#include "runtime/src/Artifact.h"
#include "runtime/src/Npy.h"
#include "runtime/src/WeightCache.h"
#include "tests/runtime/CudaToy.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>

using namespace smelt::artifact;
using namespace smelt::tests;
using namespace smelt::runtime;

namespace {

ManifestT deviceManifest() {
  ManifestT manifest = cudaToyManifest({.layers = 2, .visits = 2});
  manifest.variants[0]->size = 1;
  manifest.variants[0]->entries.assign(manifest.kernels.size(), 0);
  manifest.devices[0]->images[0]->offset = 1;
  manifest.devices[0]->images[0]->size = 1;
  DeviceKernelT &kernel = *manifest.devices[0]->programs[1]->device_kernels[2];
  auto product = std::make_unique<LibraryStageT>();
  product->gemm = std::make_unique<DeviceGemmT>();
  product->gemm->outputs = product->gemm->result_stride = 4;
  product->gemm->depth = product->gemm->activation_stride = 8;
  kernel.library.push_back(std::move(product));
  kernel.library_scratch = std::make_unique<Size>(0, 32, 0, 0, 0);
  return manifest;
}

std::string weightCache() {
  TemporaryFolder folder;
  std::vector<std::byte> data(128, std::byte(1));
  auto pool = ThreadPool::create(1);
  REQUIRE(writeWeightCache(folder.path("c"), {.layouts = {1, 2}, .sources = {3, 4}}, data, **pool, {}).ok());
  return readFile(folder.path("c"));
}

std::map<std::string, std::string> seeds() {
  ManifestT manifest = toyManifest({.layers = 2, .visits = 2});
  manifest.variants[0]->size = 1; // the code is never run
  manifest.variants[0]->entries.assign(manifest.kernels.size(), 0);
  auto npy = [](NpyType type, std::vector<uint64_t> shape, size_t bytes) {
    return npyHeader(type, shape) + std::string(bytes, '\1');
  };
  return {
      {"artifact/toy.smelt", packArtifact(manifest, "\xc3")},
      {"artifact/device.smelt", packArtifact(deviceManifest(), std::string("\xc3\0", 2))},
      {"safetensors/toy.safetensors", toySafetensors(toyWeights({.layers = 1, .visits = 1}))},
      {"safetensors/kinds.safetensors",
       packSafetensors(
           {{"a", "BF16", {2, 3}, std::string(12, 'a')}, {"b", "F16", {}, "bb"}, {"c", "I64", {0}, ""}})},
      {"weight_cache/toy.packed", weightCache()},
      {"npy/f32.npy", npy(NpyType::f32, {2, 3}, 24)},
      {"npy/i32.npy", npy(NpyType::i32, {3}, 12)},
      {"npy/i64.npy", npy(NpyType::i64, {1, 2, 1}, 16)},
  };
}

} // namespace

TEST_CASE("The fuzzers' seeds are what this version writes") {
  for (const auto &[name, bytes] : seeds()) {
    INFO(name);
    CHECK((readFile(std::string(SMELT_CORPUS) + "/" + name) == bytes));
  }
}

TEST_CASE("Write the fuzzers' seeds", "[.][corpus]") {
  for (const auto &[name, bytes] : seeds()) {
    std::filesystem::path path = std::filesystem::path(SMELT_CORPUS) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
}
