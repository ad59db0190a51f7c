#include "runtime/src/cuda/PackKernel.h"

#include "runtime/src/cuda/Module.h"
#include "runtime/src/cuda/PackedOffsetPtx.h"

#include <fmt/format.h>

#include <vector>

namespace smelt::runtime::cuda {

// One thread writes 16 bytes, 8 columns of one row of a packed matrix, padding included. In `tiles` 8 threads
// take 8 rows, so that a warp writes 512 contiguous bytes and reads 64 of each row. A row of the source
// begins at any even byte: its 16 bytes are cut from the two aligned pieces they lie in.
std::string packPtx() {
  return std::string(R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry smelt_pack(
    .param .u64 from,
    .param .u64 to,
    .param .u64 from_stride,
    .param .u64 to_stride,
    .param .u32 pieces,
    .param .u32 rows,
    .param .u32 columns,
    .param .u32 stride_rows,
    .param .u32 stride_columns,
    .param .u32 tiled)
{
    .reg .pred %p<4>, %odd, %second, %high;
    .reg .b32 %r<8>, %row, %column, %stride_rows, %stride_columns, %tiled, %offset;
    .reg .b32 %w<8>, %v<5>, %valid, %shift, %select, %mask;
    .reg .b64 %rd<8>, %from, %to;

    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u32 %r2, [pieces];
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra done;

    // row and column: of `rows` one row after the other, of `tiles` 8 rows together
    ld.param.u32 %stride_rows, [stride_rows];
    ld.param.u32 %stride_columns, [stride_columns];
    ld.param.u32 %tiled, [tiled];
    setp.ne.u32 %p1, %tiled, 0;
    selp.b32 %r4, 3, 0, %p1;
    shr.u32 %r3, %stride_columns, 3;
    shl.b32 %r3, %r3, %r4;
    div.u32 %row, %r1, %r3;
    mul.lo.u32 %r5, %row, %r3;
    sub.u32 %r5, %r1, %r5;
    shr.u32 %column, %r5, %r4;
    shl.b32 %r6, %column, %r4;
    sub.u32 %r5, %r5, %r6;
    shl.b32 %row, %row, %r4;
    add.u32 %row, %row, %r5;
    shl.b32 %column, %column, 3;

    // valid: how many of the 16 bytes the tensor has
    ld.param.u32 %r2, [rows];
    ld.param.u32 %r3, [columns];
    sub.s32 %valid, %r3, %column;
    max.s32 %valid, %valid, 0;
    min.s32 %valid, %valid, 8;
    shl.b32 %valid, %valid, 1;
    setp.lt.u32 %p1, %row, %r2;
    selp.b32 %valid, %valid, 0, %p1;

    mov.b32 %w0, 0;
    mov.b32 %w1, 0;
    mov.b32 %w2, 0;
    mov.b32 %w3, 0;
    mov.b32 %w4, 0;
    mov.b32 %w5, 0;
    mov.b32 %w6, 0;
    mov.b32 %w7, 0;
    mov.b32 %shift, 0;
    setp.eq.u32 %p1, %valid, 0;
    @%p1 bra shift;

    // from: the first byte; rd4: the aligned piece it lies in; shift: how far behind its start
    mov.u32 %r4, %ctaid.y;
    cvt.u64.u32 %rd1, %r4;
    ld.param.u64 %from, [from];
    ld.param.u64 %rd2, [from_stride];
    mad.lo.u64 %from, %rd1, %rd2, %from;
    cvt.u64.u32 %rd3, %column;
    mad.wide.u32 %rd3, %row, %r3, %rd3;
    shl.b64 %rd3, %rd3, 1;
    add.u64 %from, %from, %rd3;
    cvta.to.global.u64 %from, %from;
    and.b64 %rd4, %from, -16;
    cvt.u32.u64 %shift, %from;
    and.b32 %shift, %shift, 15;
    ld.global.nc.v4.u32 {%w0, %w1, %w2, %w3}, [%rd4];
    add.u32 %r5, %shift, %valid;
    setp.gt.u32 %p1, %r5, 16;
    @%p1 ld.global.nc.v4.u32 {%w4, %w5, %w6, %w7}, [%rd4+16];

shift:
    // by one word, by two, by half a word
    and.b32 %r5, %shift, 4;
    setp.ne.u32 %odd, %r5, 0;
    and.b32 %r5, %shift, 8;
    setp.ne.u32 %second, %r5, 0;
    and.b32 %r5, %shift, 2;
    setp.ne.u32 %high, %r5, 0;
    selp.b32 %w0, %w1, %w0, %odd;
    selp.b32 %w1, %w2, %w1, %odd;
    selp.b32 %w2, %w3, %w2, %odd;
    selp.b32 %w3, %w4, %w3, %odd;
    selp.b32 %w4, %w5, %w4, %odd;
    selp.b32 %w5, %w6, %w5, %odd;
    selp.b32 %w6, %w7, %w6, %odd;
    selp.b32 %v0, %w2, %w0, %second;
    selp.b32 %v1, %w3, %w1, %second;
    selp.b32 %v2, %w4, %w2, %second;
    selp.b32 %v3, %w5, %w3, %second;
    selp.b32 %v4, %w6, %w4, %second;
    selp.b32 %select, 0x5432, 0x3210, %high;
    prmt.b32 %v0, %v0, %v1, %select;
    prmt.b32 %v1, %v1, %v2, %select;
    prmt.b32 %v2, %v2, %v3, %select;
    prmt.b32 %v3, %v3, %v4, %select;

    // what follows the valid bytes is another row's, or padding: zero
    setp.gt.u32 %p1, %valid, 2;
    selp.b32 %mask, -1, 0xffff, %p1;
    setp.gt.u32 %p2, %valid, 0;
    selp.b32 %mask, %mask, 0, %p2;
    and.b32 %v0, %v0, %mask;
    setp.gt.u32 %p1, %valid, 6;
    selp.b32 %mask, -1, 0xffff, %p1;
    setp.gt.u32 %p2, %valid, 4;
    selp.b32 %mask, %mask, 0, %p2;
    and.b32 %v1, %v1, %mask;
    setp.gt.u32 %p1, %valid, 10;
    selp.b32 %mask, -1, 0xffff, %p1;
    setp.gt.u32 %p2, %valid, 8;
    selp.b32 %mask, %mask, 0, %p2;
    and.b32 %v2, %v2, %mask;
    setp.gt.u32 %p1, %valid, 14;
    selp.b32 %mask, -1, 0xffff, %p1;
    setp.gt.u32 %p2, %valid, 12;
    selp.b32 %mask, %mask, 0, %p2;
    and.b32 %v3, %v3, %mask;
)") + packedOffsetPtx + R"(
    mov.u32 %r4, %ctaid.y;
    cvt.u64.u32 %rd1, %r4;
    ld.param.u64 %to, [to];
    ld.param.u64 %rd2, [to_stride];
    mad.lo.u64 %to, %rd1, %rd2, %to;
    cvta.to.global.u64 %to, %to;
    mul.wide.u32 %rd3, %offset, 2;
    add.u64 %to, %to, %rd3;
    st.global.v4.u32 [%to], {%v0, %v1, %v2, %v3};
done:
    ret;
}
)";
}

namespace {

constexpr uint64_t threads = 256;
constexpr uint64_t maxElements = uint64_t(1) << 32;

} // namespace

Result<PackKernel> PackKernel::load(DevicePointer device) {
  Result<OwnedModule> module = loadImage(device, packPtx().c_str(), "the kernel that packs weights");
  if (!module.ok()) {
    return module.takeStatus();
  }
  PackKernel kernel;
  Status status = device->check(device->api.moduleGetFunction(&kernel.function, module->get(), "smelt_pack"),
                                "find the kernel that packs weights");
  if (!status.ok()) {
    return status;
  }
  kernel.device = std::move(device);
  kernel.module = std::move(*module);
  return kernel;
}

Status PackKernel::launch(const PackedShape &shape, const PackJob &job, Stream stream) const {
  uint64_t strideRows = shape.tiled() ? paddedRows(job.rows) : job.rows;
  uint64_t elements = strideRows * shape.strideColumns;
  if (elements >= maxElements) {
    return fail(SMELT_unsupported,
                fmt::format("a GPU packs fewer than {} elements at once, not {} rows of {}", maxElements,
                            strideRows, shape.strideColumns));
  }
  DevicePtr addresses[] = {job.from, job.to, job.fromStride, job.toStride};
  uint32_t numbers[] = {uint32_t(elements / 8),        uint32_t(job.rows),
                        uint32_t(shape.columns),       uint32_t(strideRows),
                        uint32_t(shape.strideColumns), shape.tiled()};
  std::vector<void *> parameters;
  for (DevicePtr &address : addresses) {
    parameters.push_back(&address);
  }
  for (uint32_t &number : numbers) {
    parameters.push_back(&number);
  }
  auto blocks = unsigned((elements / 8 + threads - 1) / threads);
  return device->check(device->api.launchKernel(function, blocks, job.count, 1, threads, 1, 1, 0, stream,
                                                parameters.data(), nullptr),
                       "launch the kernel that packs weights");
}

} // namespace smelt::runtime::cuda
