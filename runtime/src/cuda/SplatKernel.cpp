#include "runtime/src/cuda/SplatKernel.h"

#include "runtime/src/Splat.h"
#include "runtime/src/Text.h"
#include "runtime/src/cuda/Module.h"
#include "runtime/src/cuda/PackedOffsetPtx.h"

#include <fmt/format.h>

namespace smelt::runtime::cuda {

using artifact::DeviceLayout;
using artifact::Weight;

// One thread makes one element of the packed matrix. By hand, because the runtime has no compiler; it uses
// nothing that a GPU since sm_80 or a test's stand-in for one lacks.
std::string splatPtx() {
  return std::string(R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry smelt_splat(
    .param .u64 address,
    .param .u32 elements,
    .param .u32 rows,
    .param .u32 columns,
    .param .u32 stride_rows,
    .param .u32 stride_columns,
    .param .u32 tiled,
    .param .u32 key_low,
    .param .u32 key_high,
    .param .f32 scale,
    .param .f32 mean)
{
    .reg .pred %p<3>;
    .reg .b16 %h<2>;
    .reg .b32 %r<12>, %row, %column, %stride_rows, %stride_columns, %tiled, %offset;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u32 %r2, [elements];
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra done;

    // r4, r5: row and column
    ld.param.u32 %r3, [stride_columns];
    div.u32 %r4, %r1, %r3;
    mul.lo.u32 %r5, %r4, %r3;
    sub.u32 %r5, %r1, %r5;

    // r8: the hash
    ld.param.u32 %r6, [columns];
    mad.lo.u32 %r7, %r4, %r6, %r5;
    ld.param.u32 %r9, [key_low];
    mul.lo.u32 %r8, %r7, 0x9e3779b1;
    add.u32 %r8, %r8, %r9;
    shr.u32 %r9, %r8, 16;
    xor.b32 %r8, %r8, %r9;
    mul.lo.u32 %r8, %r8, 0x7feb352d;
    shr.u32 %r9, %r8, 15;
    xor.b32 %r8, %r8, %r9;
    ld.param.u32 %r9, [key_high];
    add.u32 %r8, %r8, %r9;
    mul.lo.u32 %r8, %r8, 0x846ca68b;
    shr.u32 %r9, %r8, 16;
    xor.b32 %r8, %r8, %r9;

    // r10: the value's bf16 bits
    and.b32 %r9, %r8, 0xffff;
    shr.u32 %r8, %r8, 16;
    add.u32 %r8, %r8, %r9;
    add.s32 %r8, %r8, -65535;
    cvt.rn.f32.s32 %f1, %r8;
    ld.param.f32 %f2, [scale];
    mul.rn.f32 %f1, %f1, %f2;
    ld.param.f32 %f2, [mean];
    add.rn.f32 %f1, %f1, %f2;
    mov.b32 %r10, %f1;
    shr.u32 %r9, %r10, 16;
    and.b32 %r9, %r9, 1;
    add.u32 %r10, %r10, 0x7fff;
    add.u32 %r10, %r10, %r9;
    shr.u32 %r10, %r10, 16;
    ld.param.u32 %r11, [rows];
    setp.lt.u32 %p2, %r4, %r11;
    selp.b32 %r10, %r10, 0, %p2;
    setp.lt.u32 %p2, %r5, %r6;
    selp.b32 %r10, %r10, 0, %p2;

    mov.b32 %row, %r4;
    mov.b32 %column, %r5;
    mov.b32 %stride_columns, %r3;
    ld.param.u32 %stride_rows, [stride_rows];
    ld.param.u32 %tiled, [tiled];
)") + packedOffsetPtx + R"(
    ld.param.u64 %rd1, [address];
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %offset, 2;
    add.s64 %rd1, %rd1, %rd2;
    cvt.u16.u32 %h1, %r10;
    st.global.u16 [%rd1], %h1;
done:
    ret;
}
)";
}

namespace {

constexpr uint64_t threads = 256;
constexpr uint64_t maxElements = (uint64_t(1) << 32) - threads; // of one packed tensor

// Launches the kernel on tensors.
class Generator {
public:
  static Result<Generator> create(DevicePointer device, Stream stream) {
    Result<OwnedModule> module = loadImage(device, splatPtx().c_str(), "the kernel for splat weights");
    if (!module.ok()) {
      return module.takeStatus();
    }
    Generator generator;
    Status status =
        device->check(device->api.moduleGetFunction(&generator.function, module->get(), "smelt_splat"),
                      "find the kernel for splat weights");
    if (!status.ok()) {
      return status;
    }
    generator.device = std::move(device);
    generator.stream = stream;
    generator.module = std::move(*module);
    return generator;
  }

  Status fill(DevicePtr address, const PackedShape &shape, const SplatTensor &tensor) const {
    uint64_t elements = shape.strideRows * shape.strideColumns;
    uint32_t numbers[] = {
        uint32_t(elements),         uint32_t(shape.rows),          uint32_t(shape.columns),
        uint32_t(shape.strideRows), uint32_t(shape.strideColumns), shape.layout == DeviceLayout::tiles,
        uint32_t(tensor.key),       uint32_t(tensor.key >> 32)};
    SplatTensor copy = tensor; // the driver reads parameters through pointers to mutable memory
    std::vector<void *> parameters = {&address};
    for (uint32_t &number : numbers) {
      parameters.push_back(&number);
    }
    parameters.push_back(&copy.scale);
    parameters.push_back(&copy.mean);
    auto blocks = unsigned((elements + threads - 1) / threads);
    return device->check(device->api.launchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                                                  parameters.data(), nullptr),
                         "launch the kernel for splat weights");
  }

  // All experts of one layer.
  Status fillLayer(const Weight &weight, const WeightPlace &place, uint32_t layer, uint64_t seed,
                   DevicePtr memory) const {
    for (uint32_t expert = 0; expert < std::max<uint32_t>(weight.experts(), 1); ++expert) {
      std::string name =
          expandName(weight.name()->string_view(), uint64_t(weight.first_layer()) + layer, expert);
      SplatTensor tensor = splatTensor(seed, name, {weight.shape()->data(), weight.shape()->size()});
      DevicePtr address = memory + place.offset + layer * place.layerStride + expert * place.shape.bytes;
      if (Status status = fill(address, place.shape, tensor); !status.ok()) {
        return status;
      }
    }
    return success();
  }

private:
  DevicePointer device;
  Stream stream = nullptr;
  OwnedModule module;
  Function function = nullptr;
};

Status checkSizes(const artifact::Manifest &manifest, const DevicePlan &plan) {
  for (uint32_t i = 0; i < plan.weights.size(); ++i) {
    uint64_t elements = plan.weights[i].shape.strideRows * plan.weights[i].shape.strideColumns;
    if (elements > maxElements) {
      return fail(SMELT_unsupported,
                  fmt::format("splat weights: a tensor of '{}' has {} elements, at most {} can be generated",
                              printable(manifest.weights()->Get(i)->name()->string_view()), elements,
                              maxElements));
    }
  }
  return success();
}

} // namespace

Status splatWeights(DevicePointer device, const artifact::Manifest &manifest, const DevicePlan &plan,
                    uint64_t seed, DevicePtr memory, Stream stream,
                    const std::function<bool(uint64_t, uint64_t)> &progress) {
  if (Status status = checkSizes(manifest, plan); !status.ok()) {
    return status;
  }
  Result<Generator> generator = Generator::create(device, stream);
  if (!generator.ok()) {
    return generator.takeStatus();
  }
  // Gaps between tensors stay zero.
  Status status =
      device->check(device->api.memsetBytes(memory, 0, plan.weightBytes, stream), "clear the weights");
  uint64_t done = 0;
  for (uint32_t i = 0; i < plan.weights.size() && status.ok(); ++i) {
    const Weight &weight = *manifest.weights()->Get(i);
    const WeightPlace &place = plan.weights[i];
    for (uint32_t layer = 0; layer < std::max<uint32_t>(weight.layers(), 1) && status.ok(); ++layer) {
      status = progress && !progress(done, plan.weightBytes)
                   ? fail(SMELT_interrupted, "stopped while generating the weights")
                   : generator->fillLayer(weight, place, layer, seed, memory);
      done += place.layerStride;
    }
  }
  Status end = device->check(device->api.streamSynchronize(stream), "generate splat weights");
  if (status.ok() && end.ok() && progress) {
    progress(plan.weightBytes, plan.weightBytes);
  }
  return status.ok() ? end : status;
}

} // namespace smelt::runtime::cuda
