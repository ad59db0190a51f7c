// What the loader says about the device tables of artifacts that are not sound: one case per check.
#include "runtime/src/Artifact.h"
#include "tests/runtime/CudaToy.h"

#include <catch2/catch.hpp>

#include <functional>

using namespace smelt::tests;
using namespace smelt::runtime;
using namespace smelt::artifact;
using Catch::Matchers::Contains;

namespace {

Status parse(const ManifestT &manifest, const std::string &code = cudaToyCode()) {
  std::string file = packArtifact(manifest, code);
  AlignedBytes bytes(std::as_bytes(std::span(file)));
  auto artifact = Artifact::parse("m.smelt", bytes.bytes());
  return artifact.ok() ? success() : artifact.takeStatus();
}

struct Case {
  const char *name;
  std::function<void(DeviceTargetT &)> change;
  std::vector<const char *> message;
};

void expectRefused(const std::vector<Case> &cases) {
  for (const Case &test : cases) {
    INFO(test.name);
    ManifestT manifest = cudaToyManifest();
    test.change(*manifest.devices[0]);
    Status status = parse(manifest);
    CHECK(status.code == SMELT_artifact);
    for (const char *part : test.message) {
      CHECK_THAT(status.message, Contains(part));
    }
  }
}

DeviceStageT &stage(DeviceTargetT &target) { return *target.programs[1]->device_kernels[2]->stages[1]; }

} // namespace

TEST_CASE("A sound device target is accepted") { CHECK(parse(cudaToyManifest()).message == ""); }

TEST_CASE("Device targets and their images are verified") {
  expectRefused({
      {"name", [](DeviceTargetT &t) { t.name = ""; }, {"device target 0 ''", "has no name"}},
      {"capability", [](DeviceTargetT &t) { t.compute_capability = 0; }, {"has compute capability 0"}},
      {"images", [](DeviceTargetT &t) { t.images.clear(); }, {"device target 0 'cuda:sm_80': has no image"}},
      {"kind", [](DeviceTargetT &t) { t.images[0]->kind = ImageKind(7); }, {"image 0 has kind 7"}},
      {"range", [](DeviceTargetT &t) { t.images[0]->size += 1; }, {"image 0 is at ["}},
      {"offset",
       [](DeviceTargetT &t) { t.images[0]->offset = ~uint64_t(0); },
       {"image 0 is at [18446744073709551615"}},
      {"empty", [](DeviceTargetT &t) { t.images[0]->size = 0; }, {"image 0 is at ["}},
      {"zero",
       [](DeviceTargetT &t) { t.images[0]->size -= 1; },
       {"image 0 is PTX that does not end with a zero byte"}},
      {"shared",
       [](DeviceTargetT &t) { t.shared_bytes = 1 << 21; },
       {"takes 2097152 bytes of shared memory"}},
  });
  ManifestT manifest = cudaToyManifest();
  manifest.devices.push_back(std::make_unique<DeviceTargetT>(*manifest.devices[0]));
  CHECK_THAT(parse(manifest).message,
             Contains("device target 1 'cuda:sm_80': has no name, or that of another"));
}

TEST_CASE("Device layouts are verified") {
  expectRefused({
      {"count", [](DeviceTargetT &t) { t.layouts.pop_back(); }, {"has 2 layouts for 3 weights"}},
      {"unknown", [](DeviceTargetT &t) { t.layouts[0] = DeviceLayout(9); }, {"has device layout 9"}},
      {"rank",
       [](DeviceTargetT &t) { t.layouts[1] = DeviceLayout::rows; },
       {"which takes a matrix, and the shape [4]"}},
      {"dense tiles",
       [](DeviceTargetT &t) { t.layouts[0] = DeviceLayout::tiles; },
       {"has device layout tiles and 0 experts"}},
      {"expert rows",
       [](DeviceTargetT &t) { t.layouts[2] = DeviceLayout::rows; },
       {"has device layout rows and 2 experts"}},
  });
  ManifestT manifest = cudaToyManifest();
  manifest.weights[1]->dtype = DType::f32;
  CHECK_THAT(parse(manifest).message, Contains("is f32; devices take bf16 weights"));
}

TEST_CASE("Device programs are verified as the CPU's is") {
  expectRefused({
      {"none", [](DeviceTargetT &t) { t.programs.clear(); }, {"has 0 step programs"}},
      {"order",
       [](DeviceTargetT &t) { std::swap(t.programs[0], t.programs[1]); },
       {"program 1", "must come in rising order"}},
      {"same size",
       [](DeviceTargetT &t) { t.programs[1]->max_tokens = 4; },
       {"takes at most 4 tokens (0: any) after one that takes 4"}},
      {"kernel index",
       [](DeviceTargetT &t) { t.programs[1]->blocks[0]->calls[0]->kernel = 9; },
       {"device target 0 'cuda:sm_80': program 1: block 0 call 0: kernel 9 of 5"}},
      {"buffer index",
       [](DeviceTargetT &t) {
         t.programs[0]->blocks[1]->calls[0]->bindings[0] = Binding(BindingKind::buffer, 70);
       },
       {"program 0: block 1 call 0", "is buffer 70 of 7"}},
      {"buffer size",
       [](DeviceTargetT &t) { t.programs[0]->buffers[toy::x]->size = std::make_unique<Size>(0, 4, 0, 0, 0); },
       {"program 0", "buffer 'x' has 0 + 4*T"}},
      {"no logits",
       [](DeviceTargetT &t) { t.programs[0]->buffers[toy::logits]->kind = BufferKind::workspace; },
       {"program 0: there are 0 buffers of kind logits"}},
      {"visits",
       [](DeviceTargetT &t) { t.programs[1]->blocks[1]->visits = 0; },
       {"program 1: block 1: has 0 visits"}},
      {"state",
       [](DeviceTargetT &t) { t.programs[1]->buffers[toy::state]->slots = 99; },
       {"program 1", "state buffer 0 is 'sums' of 99 slots",
        "that of the first program is 'sums' of 6 slots"}},
      {"state size",
       [](DeviceTargetT &t) {
         t.programs[1]->buffers[toy::state]->size = std::make_unique<Size>(0, 0, 0, 0, 32);
       },
       {"program 1", "state buffer 0"}},
      {"kernel count",
       [](DeviceTargetT &t) { t.programs[0]->device_kernels.pop_back(); },
       {"program 0: there are 4 device kernels for 5 kernels"}},
  });
}

namespace {

// The product of a form for a library that toy_mix gets: bindings x positions sequences state scale, constants T
// H C A B.
DeviceGemmT &gemm(DeviceTargetT &t) {
  DeviceKernelT &kernel = *t.programs[1]->device_kernels[2];
  auto launch = std::make_unique<LibraryStageT>(), product = std::make_unique<LibraryStageT>();
  launch->launch = std::make_unique<DeviceStageT>(*kernel.stages[0]);
  product->gemm = std::make_unique<DeviceGemmT>();
  product->gemm->weight = 4;
  product->gemm->outputs = product->gemm->result_stride = 4;
  product->gemm->depth = product->gemm->activation_stride = 8;
  product->gemm->result = 0;
  kernel.library.push_back(std::move(launch));
  kernel.library.push_back(std::move(product));
  kernel.library_scratch = std::make_unique<Size>(0, 16, 0, 0, 0);
  return *kernel.library[1]->gemm;
}

DeviceKernelT &withLibrary(DeviceTargetT &t) {
  gemm(t);
  return *t.programs[1]->device_kernels[2];
}

} // namespace

TEST_CASE("Forms for a library of products are verified") {
  ManifestT manifest = cudaToyManifest();
  gemm(*manifest.devices[0]);
  CHECK(parse(manifest).message == "");
  const char *bindings = "'toy_mix': library stage 1 uses bindings";
  expectRefused({
      {"scratch",
       [](DeviceTargetT &t) { withLibrary(t).library_scratch = nullptr; },
       {"'toy_mix': has 2 stages for a library, with no scratch"}},
      {"neither",
       [](DeviceTargetT &t) { withLibrary(t).library[0]->launch = nullptr; },
       {"library stage 0 is both or neither of a launch and a product"}},
      {"both",
       [](DeviceTargetT &t) {
         DeviceKernelT &kernel = withLibrary(t);
         kernel.library[0]->gemm = std::make_unique<DeviceGemmT>(*kernel.library[1]->gemm);
       },
       {"library stage 0 is both or neither"}},
      {"launch",
       [](DeviceTargetT &t) { withLibrary(t).library[0]->launch->threads = 1025; },
       {"library stage 0 has 1025 threads in a block"}},
      {"weight", [](DeviceTargetT &t) { gemm(t).weight = 5; }, {bindings}},
      {"result", [](DeviceTargetT &t) { gemm(t).result = 5; }, {bindings}},
      {"negative result", [](DeviceTargetT &t) { gemm(t).result = -2; }, {bindings}},
      {"addend", [](DeviceTargetT &t) { gemm(t).addend = 5; }, {bindings}},
      {"scale", [](DeviceTargetT &t) { gemm(t).scale = 99; }, {bindings}},
      {"outputs", [](DeviceTargetT &t) { gemm(t).outputs = 0; }, {"makes columns [0, +0) of 4"}},
      {"column", [](DeviceTargetT &t) { gemm(t).column = 1; }, {"makes columns [1, +4) of 4"}},
      {"far column", [](DeviceTargetT &t) { gemm(t).column = ~0u; }, {"makes columns [4294967295, +4)"}},
      {"depth", [](DeviceTargetT &t) { gemm(t).depth = 9; }, {"from 9 of 8 columns"}},
      {"rows in scratch",
       [](DeviceTargetT &t) { gemm(t).activation_stride = 9; },
       {"needs 18 bytes of scratch a row, there are 16"}},
      {"results in scratch",
       [](DeviceTargetT &t) { gemm(t).result = -1; },
       {"needs 32 bytes of scratch a row, there are 16"}},
  });
}

TEST_CASE("Stages are verified") {
  expectRefused({
      {"none",
       [](DeviceTargetT &t) { t.programs[0]->device_kernels[0]->stages.clear(); },
       {"program 0: kernel 0 'toy_embed': has 0 stages"}},
      {"function",
       [](DeviceTargetT &t) { stage(t).function = ""; },
       {"kernel 2 'toy_mix': stage 1 names no function"}},
      {"threads", [](DeviceTargetT &t) { stage(t).threads = 1025; }, {"has 1025 threads in a block"}},
      {"no threads", [](DeviceTargetT &t) { stage(t).threads = 0; }, {"has 0 threads in a block"}},
      {"shared",
       [](DeviceTargetT &t) { stage(t).shared_bytes = 8; },
       {"takes 8 bytes of shared memory, the target says at most 0"}},
      {"divisor",
       [](DeviceTargetT &t) { stage(t).grid_z = std::make_unique<GridSize>(1, 0, 0, 0, 0, 0); },
       {"has a grid whose z is divided by 0"}},
      {"limit",
       [](DeviceTargetT &t) { stage(t).grid_y = std::make_unique<GridSize>(1, 0, 0, 0, 1, 65536); },
       {"has a grid whose y may be 65536; CUDA allows 65535"}},
  });
}

TEST_CASE("Problems of all devices are listed together") {
  ManifestT manifest = cudaToyManifest();
  DeviceTargetT &target = *manifest.devices[0];
  target.compute_capability = 0;
  target.layouts[0] = DeviceLayout::tiles;
  stage(target).threads = 0;
  target.programs[0]->device_kernels[0]->stages.clear();
  CHECK_THAT(parse(manifest).message, Contains("(4 problems)"));
}
