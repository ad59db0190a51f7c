#include "tests/cuda_driver/Ptx.h"

#include <bit>

namespace smelt::tests {
namespace {

template <class T>
std::vector<T> runElements(const std::string &code, const std::vector<T> &a, std::vector<T> b,
                           std::vector<T> c) {
  const std::string width = std::to_string(8 * sizeof(T)), reg = sizeof(T) == 8 ? "%rd" : "%r";
  b.resize(a.size());
  c.resize(a.size());
  std::string body = "mov.u32 %r30, %tid.x; mov.u32 %r31, %ctaid.x; mov.u32 %r32, %ntid.x;\n"
                     "mad.lo.u32 %r30, %r31, %r32, %r30; mul.wide.u32 %rd30, %r30, " +
                     std::to_string(sizeof(T)) + ";\n";
  for (int i = 0; i < 3; ++i) {
    const std::string n = std::to_string(i + 1);
    body += "ld.param.u64 %rd31, [p" + n + "]; add.s64 %rd31, %rd31, %rd30; ld.global.b" + width + " " + reg +
            n + ", [%rd31];\n";
  }
  body += code + "\nld.param.u64 %rd31, [p0]; add.s64 %rd31, %rd31, %rd30; st.global.b" + width +
          " [%rd31], " + reg + "0;\n";
  TestDevice &device = TestDevice::get();
  const TestModule module = device.load(kernelText(body, 4));
  const DeviceBuffer da = device.upload(a), db = device.upload(b), dc = device.upload(c);
  const DeviceBuffer out = device.allocate(a.size() * sizeof(T));
  module.run("k", shape(1, static_cast<unsigned>(a.size())), {out, da, db, dc});
  return out.read<T>();
}

} // namespace

std::string kernelText(const std::string &body, int params, const std::string &directives,
                       const std::string &target, const std::string &globals) {
  std::string text =
      ".version 8.3\n.target " + target + "\n.address_size 64\n" + globals + "\n.visible .entry k(\n";
  for (int i = 0; i < params; ++i) {
    text += std::string(i ? ", " : "") + ".param .u64 p" + std::to_string(i) + "\n";
  }
  return text + ")\n" + directives +
         "\n{\n.reg .pred %p<40>; .reg .b16 %rs<40>; .reg .b32 %r<40>; .reg .b64 %rd<40>;\n" +
         ".reg .f32 %f<40>; .reg .f64 %fd<40>;\n" + body + "\nret;\n}\n";
}

std::vector<uint32_t> run32(const std::string &code, const std::vector<uint32_t> &a, std::vector<uint32_t> b,
                            std::vector<uint32_t> c) {
  return runElements(code, a, std::move(b), std::move(c));
}

std::vector<uint64_t> run64(const std::string &code, const std::vector<uint64_t> &a, std::vector<uint64_t> b,
                            std::vector<uint64_t> c) {
  return runElements(code, a, std::move(b), std::move(c));
}

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
float real(uint32_t bits) { return std::bit_cast<float>(bits); }
uint64_t bits64(double value) { return std::bit_cast<uint64_t>(value); }

std::string failure(const std::string &text, const LaunchShape &shape,
                    const std::vector<KernelArgument> &arguments) {
  TestDevice &device = TestDevice::get();
  try {
    const TestModule module = device.load(text);
    module.run("k", shape, arguments);
    return "";
  } catch (const CudaError &error) {
    device.clearError();
    return error.what();
  }
}

} // namespace smelt::tests
