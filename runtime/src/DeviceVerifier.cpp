// The part of verifyManifest about devices.
#include "runtime/src/ArtifactVerifier.h"

#include "runtime/src/ProgramTables.h"
#include "runtime/src/cuda/WeightLayout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace smelt::runtime {

using namespace artifact;

namespace {

constexpr uint32_t maxBlockThreads = 1024;
constexpr uint32_t maxStages = 64;
constexpr size_t maxPrograms = 16;
constexpr uint32_t maxSharedBytes = 1 << 20;

class DeviceVerifier {
public:
  DeviceVerifier(const Manifest &manifest, std::span<const std::byte> code, ProblemList &problems)
      : manifest(manifest), code(code), problems(problems) {}

  void run() {
    std::set<std::string_view> names;
    for (uint32_t i = 0; i < manifest.devices()->size(); ++i) {
      const DeviceTarget &target = *manifest.devices()->Get(i);
      where = fmt::format("device target {} '{}'", i, printable(target.name()->string_view()));
      if (target.name()->size() == 0 || !names.insert(target.name()->string_view()).second) {
        report("has no name, or that of another");
      }
      if (target.compute_capability() < 10) {
        report(fmt::format("has compute capability {}", target.compute_capability()));
      }
      if (target.shared_bytes() > maxSharedBytes) {
        report(fmt::format("takes {} bytes of shared memory; at most {}", target.shared_bytes(),
                           maxSharedBytes));
      }
      verifyImages(target);
      verifyLayouts(target);
      verifyPrograms(target);
    }
  }

private:
  void report(const std::string &what) { problems.add(fmt::format("{}: {}", where, what)); }

  void verifyImages(const DeviceTarget &target) {
    if (target.images()->size() == 0) {
      report("has no image");
    }
    for (uint32_t i = 0; i < target.images()->size(); ++i) {
      const DeviceImage &image = *target.images()->Get(i);
      if (image.kind() > ImageKind::MAX) {
        report(fmt::format("image {} has kind {}, which this runtime does not know", i, int(image.kind())));
      }
      if (image.offset() > code.size() || image.size() > code.size() - image.offset() || image.size() == 0) {
        report(fmt::format("image {} is at [{}, +{}) of {} bytes of code", i, image.offset(), image.size(),
                           code.size()));
        continue;
      }
      if (image.kind() == ImageKind::ptx && code[image.offset() + image.size() - 1] != std::byte(0)) {
        report(fmt::format("image {} is PTX that does not end with a zero byte", i));
      }
    }
  }

  void verifyLayouts(const DeviceTarget &target) {
    if (target.layouts()->size() != manifest.weights()->size()) {
      return report(
          fmt::format("has {} layouts for {} weights", target.layouts()->size(), manifest.weights()->size()));
    }
    for (uint32_t i = 0; i < target.layouts()->size(); ++i) {
      const Weight &weight = *manifest.weights()->Get(i);
      auto about = [&](const std::string &what) {
        report(fmt::format("weight {} '{}' {}", i, printable(weight.name()->string_view()), what));
      };
      auto layout = DeviceLayout(target.layouts()->Get(i));
      if (layout > DeviceLayout::MAX) {
        about(fmt::format("has device layout {}, which this runtime does not know", int(layout)));
      } else if (layout != DeviceLayout::vector && weight.shape()->size() != 2) {
        about(fmt::format("has device layout {}, which takes a matrix, and the shape {}",
                          EnumNameDeviceLayout(layout),
                          formatShape({weight.shape()->data(), weight.shape()->size()})));
      }
      if ((layout == DeviceLayout::tiles) != (weight.experts() > 0)) {
        about(fmt::format("has device layout {} and {} experts; experts, and nothing else, lie in tiles",
                          EnumNameDeviceLayout(layout), weight.experts()));
      }
      if (weight.dtype() != DType::bf16) {
        about(fmt::format("is {}; devices take bf16 weights", EnumNameDType(weight.dtype())));
      }
      if (!cuda::packedSizeFits(weight)) {
        about("is too large for a device");
      }
    }
  }

  void verifyPrograms(const DeviceTarget &target) {
    const auto &programs = *target.programs();
    if (programs.size() == 0 || programs.size() > maxPrograms) {
      return report(fmt::format("has {} step programs; 1..{} expected", programs.size(), maxPrograms));
    }
    for (uint32_t i = 0; i < programs.size(); ++i) {
      const DeviceProgram &program = *programs.Get(i);
      std::string name = fmt::format("{}: program {}", where, i);
      auto about = [&](const std::string &what) { problems.add(fmt::format("{}: {}", name, what)); };
      uint32_t before = i ? programs.Get(i - 1)->max_tokens() : 0;
      if (i && (before == 0 || (program.max_tokens() != 0 && program.max_tokens() <= before))) {
        about(fmt::format("takes at most {} tokens (0: any) after one that takes {}; programs must come in "
                          "rising order",
                          program.max_tokens(), before));
      }
      uint64_t found = problems.size();
      ProgramTables tables(manifest, program);
      verifyProgramTables(tables, name + ": ", problems);
      verifyKernels(target, program, name);
      if (i) {
        verifySameState(*programs.Get(0)->buffers(), *program.buffers(), about);
      }
      if (problems.size() == found) {
        verifyProgram(tables, name + ": ", problems);
      }
    }
  }

  void verifyKernels(const DeviceTarget &target, const DeviceProgram &program, const std::string &name) {
    if (program.device_kernels()->size() != program.kernels()->size()) {
      problems.add(fmt::format("{}: there are {} device kernels for {} kernels", name,
                               program.device_kernels()->size(), program.kernels()->size()));
      return;
    }
    for (uint32_t k = 0; k < program.kernels()->size(); ++k) {
      const DeviceKernel &kernel = *program.device_kernels()->Get(k);
      std::string subject = fmt::format("{}: kernel {} '{}'", name, k,
                                        printable(program.kernels()->Get(k)->name()->string_view()));
      if (kernel.stages()->size() == 0 || kernel.stages()->size() > maxStages) {
        problems.add(
            fmt::format("{}: has {} stages; 1..{} expected", subject, kernel.stages()->size(), maxStages));
      }
      for (uint32_t s = 0; s < kernel.stages()->size(); ++s) {
        verifyStage(target, *kernel.stages()->Get(s), fmt::format("{}: stage {}", subject, s));
      }
      if (kernel.library()) {
        verifyLibrary(target, *program.kernels()->Get(k), kernel, subject);
      }
    }
  }

  void verifyLibrary(const DeviceTarget &target, const Kernel &kernel, const DeviceKernel &device,
                     const std::string &name) {
    if (device.library()->size() > maxStages || (device.library()->size() && !device.library_scratch())) {
      problems.add(fmt::format("{}: has {} stages for a library, with {} scratch; at most {} expected, with it",
                               name, device.library()->size(), device.library_scratch() ? "their" : "no",
                               maxStages));
      return;
    }
    for (uint32_t s = 0; s < device.library()->size(); ++s) {
      const LibraryStage &stage = *device.library()->Get(s);
      std::string subject = fmt::format("{}: library stage {}", name, s);
      if ((stage.launch() != nullptr) == (stage.gemm() != nullptr)) {
        problems.add(subject + " is both or neither of a launch and a product");
      } else if (stage.launch()) {
        verifyStage(target, *stage.launch(), subject);
      } else {
        verifyGemm(kernel, *stage.gemm(), *device.library_scratch(), subject);
      }
    }
  }

  void verifyGemm(const Kernel &kernel, const DeviceGemm &gemm, const Size &scratch,
                  const std::string &subject) {
    auto about = [&](const std::string &what) { problems.add(fmt::format("{} {}", subject, what)); };
    int64_t bindings = kernel.bindings()->size(), constants = kernel.constants();
    if (gemm.weight() >= bindings || gemm.result() < -1 || gemm.result() >= bindings || gemm.addend() < -1 ||
        gemm.addend() >= bindings || gemm.scale() < -1 || gemm.scale() >= constants || constants == 0) {
      about(fmt::format(
          "uses bindings {}, {} and {} and constant {} of a kernel of {} bindings and {} constants",
          gemm.weight(), gemm.result(), gemm.addend(), gemm.scale(), bindings, constants));
    }
    if (gemm.outputs() == 0 || gemm.depth() == 0 || gemm.depth() > gemm.activation_stride() ||
        uint64_t(gemm.column()) + gemm.outputs() > gemm.result_stride()) {
      about(fmt::format("makes columns [{}, +{}) of {}, from {} of {} columns", gemm.column(), gemm.outputs(),
                        gemm.result_stride(), gemm.depth(), gemm.activation_stride()));
    }
    uint64_t row = uint64_t(gemm.activation_stride()) * sizeof(uint16_t) +
                   (gemm.result() < 0 ? uint64_t(gemm.result_stride()) * sizeof(float) : 0);
    uint64_t held = std::max(scratch.per_token(), scratch.per_logit_row());
    if (row > held) {
      about(fmt::format("needs {} bytes of scratch a row, there are {}", row, held));
    }
  }

  void verifyStage(const DeviceTarget &target, const DeviceStage &stage, const std::string &subject) {
    auto about = [&](const std::string &what) { problems.add(fmt::format("{} {}", subject, what)); };
    if (stage.function()->size() == 0) {
      about("names no function");
    }
    if (stage.threads() < 1 || stage.threads() > maxBlockThreads) {
      about(fmt::format("has {} threads in a block; 1..{} expected", stage.threads(), maxBlockThreads));
    }
    if (stage.shared_bytes() > target.shared_bytes()) {
      about(fmt::format("takes {} bytes of shared memory, the target says at most {}", stage.shared_bytes(),
                        target.shared_bytes()));
    }
    int axis = 0;
    for (const GridSize *size : {stage.grid_x(), stage.grid_y(), stage.grid_z()}) {
      char letter = char('x' + axis++);
      if (size->divisor() == 0) {
        about(fmt::format("has a grid whose {} is divided by 0", letter));
      }
      if (axis > 1 && size->limit() > 65535) {
        about(fmt::format("has a grid whose {} may be {}; CUDA allows 65535", letter, size->limit()));
      }
    }
  }

  // State survives from a step of one program to a step of another.
  template <typename Report>
  static void verifySameState(const Tables<Buffer> &first, const Tables<Buffer> &second, Report about) {
    auto states = [](const Tables<Buffer> &buffers) {
      std::vector<const Buffer *> found;
      for (const Buffer *buffer : buffers) {
        if (buffer->kind() == BufferKind::state) {
          found.push_back(buffer);
        }
      }
      return found;
    };
    std::vector<const Buffer *> a = states(first), b = states(second);
    if (a.size() != b.size()) {
      return about(fmt::format("has {} state buffers, the first program has {}", b.size(), a.size()));
    }
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i]->name()->string_view() != b[i]->name()->string_view() || a[i]->dtype() != b[i]->dtype() ||
          a[i]->slots() != b[i]->slots() || !covers(*a[i]->size(), *b[i]->size()) ||
          !covers(*b[i]->size(), *a[i]->size())) {
        about(
            fmt::format("state buffer {} is '{}' of {} slots of {} bytes, that of the first program is '{}' "
                        "of {} slots of {} bytes",
                        i, printable(b[i]->name()->string_view()), b[i]->slots(), formatSize(*b[i]->size()),
                        printable(a[i]->name()->string_view()), a[i]->slots(), formatSize(*a[i]->size())));
      }
    }
  }

  const Manifest &manifest;
  std::span<const std::byte> code;
  ProblemList &problems;
  std::string where;
};

} // namespace

void verifyDevices(const Manifest &manifest, std::span<const std::byte> code, ProblemList &problems) {
  if (manifest.devices()) {
    DeviceVerifier(manifest, code, problems).run();
  }
}

} // namespace smelt::runtime
