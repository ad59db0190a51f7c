#include "tests/runtime/CudaToy.h"

#include <bit>
#include <cstring>

namespace smelt::tests {

using namespace artifact;

namespace {

// One thread works on element i = r3 of a grid over `count` elements; r4 and r5 are i / %width and i %
// %width.
std::string entry(const std::string &name, const std::string &bindings, const std::string &constants,
                  const std::string &count, const std::string &width, const std::string &body) {
  std::string parameters, loads;
  auto split = [](const std::string &names, const auto &use) {
    for (size_t begin = 0; begin < names.size();) {
      size_t end = std::min(names.find(' ', begin), names.size());
      use(names.substr(begin, end - begin));
      begin = end + 1;
    }
  };
  std::string registers;
  auto pointer = [&](const std::string &name) {
    parameters += (parameters.empty() ? "    " : ",\n    ") + (".param .u64 p_" + name);
    registers += "    .reg .b64 %" + name + ";\n";
    loads += "    ld.param.u64 %" + name + ", [p_" + name + "];\n    cvta.to.global.u64 %" + name + ", %" +
             name + ";\n";
  };
  split(bindings, pointer);
  split(constants, [&](const std::string &name) {
    parameters += ",\n    .param .u32 p_" + name;
    registers += "    .reg .b32 %" + name + ";\n";
    loads += "    ld.param.u32 %" + name + ", [p_" + name + "];\n";
  });
  pointer("scratch");
  pointer("tickets");
  return ".visible .entry " + name + "(\n" + parameters + ")\n{\n" + registers +
         "    .reg .pred %p<4>;\n    .reg .b16 %h<4>;\n    .reg .b32 %r<32>;\n    .reg .f32 %f<8>;\n"
         "    .reg .b64 %rd<8>;\n" +
         loads +
         "    mov.u32 %r1, %ctaid.x;\n    mov.u32 %r2, %ntid.x;\n    mov.u32 %r3, %tid.x;\n"
         "    mad.lo.u32 %r3, %r1, %r2, %r3;\n"
         "    mul.lo.u32 %r6, " +
         count + ", " + width +
         ";\n    setp.ge.u32 %p1, %r3, %r6;\n    @%p1 bra done;\n    div.u32 %r4, %r3, " + width +
         ";\n    rem.u32 %r5, %r3, " + width + ";\n" + body + "done:\n    ret;\n}\n\n";
}

// %to = f32 at pointer + 4 * index
std::string load(const std::string &to, const std::string &pointer, const std::string &index) {
  return "    mul.wide.u32 %rd1, " + index + ", 4;\n    add.s64 %rd1, " + pointer +
         ", %rd1;\n    ld.global.f32 " + to + ", [%rd1];\n";
}
std::string loadInteger(const std::string &to, const std::string &pointer, const std::string &index) {
  return "    mul.wide.u32 %rd1, " + index + ", 4;\n    add.s64 %rd1, " + pointer +
         ", %rd1;\n    ld.global.u32 " + to + ", [%rd1];\n";
}
std::string loadBf16(const std::string &to, const std::string &pointer, const std::string &index) {
  return "    mul.wide.u32 %rd1, " + index + ", 2;\n    add.s64 %rd1, " + pointer +
         ", %rd1;\n    ld.global.u16 %h1, [%rd1];\n    cvt.u32.u16 %r20, %h1;\n    shl.b32 %r20, %r20, 16;\n"
         "    mov.b32 " +
         to + ", %r20;\n";
}
std::string store(const std::string &from, const std::string &pointer, const std::string &index) {
  return "    mul.wide.u32 %rd1, " + index + ", 4;\n    add.s64 %rd1, " + pointer +
         ", %rd1;\n    st.global.f32 [%rd1], " + from + ";\n";
}

std::string kernels() {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n\n";
  // Rows of the embedding are 8 elements apart in layout `rows`.
  text += entry("toy_embed_0", "ids embedding x", "T H", "%T", "%H",
                loadInteger("%r7", "%ids", "%r4") + "    mad.lo.u32 %r8, %r7, 8, %r5;\n" +
                    loadBf16("%f1", "%embedding", "%r8") + store("%f1", "%x", "%r3"));
  std::string row = loadInteger("%r7", "%positions", "%r4") + loadInteger("%r8", "%sequences", "%r4") +
                    "    mul.lo.u32 %r8, %r8, %C;\n";
  text += entry("toy_append_0", "x positions sequences state", "T H C", "%T", "%H",
                row + "    add.u32 %r8, %r8, %r7;\n    mad.lo.u32 %r8, %r8, %H, %r5;\n" +
                    load("%f1", "%x", "%r3") + store("%f1", "%state", "%r8"));
  // Stage 0: sums into scratch. Stage 1: x, and the tickets, which must be zero.
  text += entry("toy_mix_0", "x positions sequences state scale", "T H C A B", "%T", "%H",
                row + "    mad.lo.u32 %r8, %r8, %H, %r5;\n" + load("%f1", "%state", "%r8") +
                    "    mov.u32 %r9, 0;\nnext:\n    setp.ge.u32 %p2, %r9, %r7;\n    @%p2 bra last;\n"
                    "    add.u32 %r9, %r9, 1;\n    add.u32 %r8, %r8, %H;\n" +
                    load("%f2", "%state", "%r8") + "    add.rn.f32 %f1, %f1, %f2;\n    bra next;\nlast:\n" +
                    store("%f1", "%scratch", "%r3"));
  text += entry(
      "toy_mix_1", "x positions sequences state scale", "T H C A B", "%T", "%H",
      load("%f1", "%scratch", "%r3") + load("%f2", "%x", "%r3") + loadBf16("%f3", "%scale", "%r5") +
          "    mov.b32 %f4, %A;\n    mov.b32 %f5, %B;\n    mul.rn.f32 %f4, %f4, %f3;\n"
          "    mul.rn.f32 %f4, %f4, %f2;\n    mul.rn.f32 %f5, %f5, %f1;\n    add.rn.f32 %f4, %f4, %f5;\n"
          "    mov.u32 %r9, 0;\n" +
          loadInteger("%r9", "%tickets", "%r9") +
          "    cvt.rn.f32.u32 %f6, %r9;\n    add.rn.f32 %f4, %f4, %f6;\n" + store("%f4", "%x", "%r3"));
  // An expert is one tile row of 8 x 16: 256 bytes; its first 8 columns lie together.
  text += entry("toy_experts_0", "x ids table", "T H E", "%T", "%H",
                loadInteger("%r7", "%ids", "%r4") +
                    "    rem.u32 %r7, %r7, %E;\n    mad.lo.u32 %r8, %r7, 128, %r5;\n" +
                    loadBf16("%f1", "%table", "%r8") + load("%f2", "%x", "%r3") +
                    "    add.rn.f32 %f2, %f2, %f1;\n" + store("%f2", "%x", "%r3"));
  text += entry(
      "toy_head_0", "x rows embedding logits", "R H V", "%R", "%V",
      loadInteger("%r7", "%rows", "%r4") + "    mul.lo.u32 %r7, %r7, %H;\n    mul.lo.u32 %r8, %r5, 8;\n" +
          load("%f1", "%x", "%r7") + loadBf16("%f2", "%embedding", "%r8") +
          "    mul.rn.f32 %f3, %f2, %f1;\n    mov.u32 %r9, 1;\nnext:\n    setp.ge.u32 %p2, %r9, %H;\n"
          "    @%p2 bra last;\n    add.u32 %r7, %r7, 1;\n    add.u32 %r8, %r8, 1;\n    add.u32 %r9, %r9, "
          "1;\n" +
          load("%f1", "%x", "%r7") + loadBf16("%f2", "%embedding", "%r8") +
          "    mul.rn.f32 %f2, %f2, %f1;\n    add.rn.f32 %f3, %f3, %f2;\n    bra next;\nlast:\n" +
          store("%f3", "%logits", "%r3"));
  return text;
}

GridSize one() { return {1, 0, 0, 0, 1, 0}; }

std::unique_ptr<DeviceStageT> stage(const std::string &function, const GridSize &x) {
  auto stage = std::make_unique<DeviceStageT>();
  stage->function = function;
  stage->grid_x = std::make_unique<GridSize>(x);
  stage->grid_y = std::make_unique<GridSize>(one());
  stage->grid_z = std::make_unique<GridSize>(one());
  stage->threads = 32;
  return stage;
}

std::unique_ptr<DeviceProgramT> program(const ManifestT &manifest, uint32_t maxTokens) {
  auto program = std::make_unique<DeviceProgramT>();
  program->max_tokens = maxTokens;
  for (const auto &buffer : manifest.buffers) {
    program->buffers.push_back(std::make_unique<BufferT>(*buffer));
  }
  const GridSize perToken(0, toyWidth, 0, 0, 32, 0), perRow(0, 0, toyVocab, 0, 32, 0);
  for (const auto &kernel : manifest.kernels) {
    program->kernels.push_back(std::make_unique<KernelT>(*kernel));
    auto device = std::make_unique<DeviceKernelT>();
    device->scratch = std::make_unique<Size>(0, 4 * toyWidth, 0, 0, 0);
    device->stages.push_back(stage(kernel->name + "_0", kernel->name == "toy_head" ? perRow : perToken));
    if (kernel->name == "toy_mix") {
      device->stages.push_back(stage("toy_mix_1", perToken));
    }
    program->device_kernels.push_back(std::move(device));
  }
  for (const auto &block : manifest.blocks) {
    program->blocks.push_back(std::make_unique<BlockT>(*block));
  }
  return program;
}

float rounded(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

} // namespace

ManifestT cpuTwinManifest(const ToyShape &shape) {
  ManifestT manifest = toyManifest(shape);
  manifest.weights[toy::expert]->shape = {1, toyWidth};
  return manifest;
}

std::string cudaToyPtx() { return kernels(); }

std::string cudaToyCode() {
  std::string code(toyCode());
  return code + kernels() + std::string(1, '\0');
}

ManifestT cudaToyManifest(const ToyShape &shape) {
  ManifestT manifest = cpuTwinManifest(shape);
  manifest.weights_dtype = DType::bf16;
  for (auto &weight : manifest.weights) {
    weight->dtype = DType::bf16;
  }
  for (auto &kernel : manifest.kernels) { // weights take half the bytes; the CPU's code is not run
    for (auto &binding : kernel->bindings) {
      if (binding->size->bytes()) {
        binding->size = std::make_unique<Size>(binding->size->bytes() / 2, 0, 0, 0, 0);
      }
    }
  }
  auto target = std::make_unique<DeviceTargetT>();
  target->name = "cuda:sm_80";
  target->compute_capability = 80;
  target->ptx_version = 70;
  auto image = std::make_unique<DeviceImageT>();
  image->kind = ImageKind::ptx;
  image->offset = toyCode().size();
  image->size = kernels().size() + 1;
  target->images.push_back(std::move(image));
  target->layouts = {DeviceLayout::rows, DeviceLayout::vector, DeviceLayout::tiles};
  target->programs.push_back(program(manifest, toyShortTokens));
  target->programs.push_back(program(manifest, 0));
  manifest.devices.push_back(std::move(target));
  return manifest;
}

ToyWeights cudaToyWeights(const ToyShape &shape) {
  ToyWeights weights = toyWeights(shape);
  auto round = [](std::vector<float> &values) {
    for (float &value : values) {
      value = rounded(value);
    }
  };
  round(weights.embedding);
  for (size_t layer = 0; layer < weights.scale.size(); ++layer) {
    round(weights.scale[layer]);
    for (std::vector<float> &expert : weights.expert[layer]) {
      round(expert);
    }
  }
  return weights;
}

std::string cudaToySafetensors(const ToyWeights &weights) {
  std::vector<RawTensor> tensors = toyTensors(weights);
  for (RawTensor &tensor : tensors) {
    std::string half;
    for (size_t i = 0; i < tensor.bytes.size(); i += 4) {
      half += tensor.bytes.substr(i + 2, 2); // the upper half of a little-endian float
    }
    tensor.bytes = half;
    tensor.dtype = "BF16";
    if (tensor.name.find("expert") != tensor.name.npos) {
      tensor.shape.insert(tensor.shape.begin(), 1);
    }
  }
  return packSafetensors(tensors);
}

} // namespace smelt::tests
