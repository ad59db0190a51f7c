#include "runtime/src/cuda/GemmLibrary.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace smelt::runtime::cuda {
namespace {

// What cuBLASLt can gain from.
constexpr uint64_t mostAlignment = 256;

uint64_t alignmentOf(DevicePtr address) {
  return address ? std::min(mostAlignment, uint64_t(1) << std::countr_zero(address)) : mostAlignment;
}

// The addend, or the result in its place, which is not read then.
DevicePtr addendOf(const Gemm &gemm) { return gemm.addend ? gemm.addend : gemm.result; }

void *pointer(DevicePtr address) { return reinterpret_cast<void *>(address); }

} // namespace

// cuBLASLt keeps matrices by columns: the rows of ours are its columns. A is the weight, transposed, B the
// activations, C and D addend and result.
struct GemmLibrary::Plan {
  explicit Plan(const CublasApi &api) : api(api) {}
  ~Plan() {
    for (MatrixLayout layout : {a, b, c}) {
      if (layout) {
        api.layoutDestroy(layout);
      }
    }
    if (desc) {
      api.descDestroy(desc);
    }
    if (preference) {
      api.preferenceDestroy(preference);
    }
  }

  int describe(const Gemm &gemm);
  int prefer(const Gemm &gemm);

  const CublasApi &api;
  MatmulDesc desc = nullptr;
  MatrixLayout a = nullptr, b = nullptr, c = nullptr; // c of D as well
  MatmulPreference preference = nullptr;
  MatmulAlgorithm algorithm = {};
};

int GemmLibrary::Plan::describe(const Gemm &gemm) {
  int32_t transposed = cublas_transposed;
  int code = api.descCreate(&desc, cublas_compute_f32, cublas_f32);
  code = code ? code : api.descSet(desc, matmul_transpose_a, &transposed, sizeof transposed);
  code =
      code ? code : api.layoutCreate(&a, cublas_bf16, gemm.depth, gemm.outputs, int64_t(gemm.weightStride));
  code =
      code ? code : api.layoutCreate(&b, cublas_bf16, gemm.depth, gemm.rows, int64_t(gemm.activationStride));
  return code ? code
              : api.layoutCreate(&c, cublas_f32, gemm.outputs, gemm.rows, int64_t(gemm.resultStride));
}

int GemmLibrary::Plan::prefer(const Gemm &gemm) {
  uint64_t workspace = workspaceBytes;
  // Partial sums are only added up in f32 by a separate step, in one order: the same bits every time.
  uint32_t reductions = reduction_in_compute_type;
  int code = api.preferenceCreate(&preference);
  code = code ? code
              : api.preferenceSet(preference, preference_workspace_bytes, &workspace, sizeof workspace);
  code =
      code ? code : api.preferenceSet(preference, preference_reductions, &reductions, sizeof reductions);
  const DevicePtr operands[] = {gemm.weight, gemm.activations, addendOf(gemm), gemm.result};
  for (int i = 0; i < 4; ++i) {
    auto alignment = uint32_t(alignmentOf(operands[i]));
    code =
        code ? code : api.preferenceSet(preference, preference_alignment_a + i, &alignment, sizeof alignment);
  }
  return code;
}

Result<std::unique_ptr<GemmLibrary>>
GemmLibrary::open(DevicePointer device, GemmChoice choice,
                  const std::function<void(const std::string &)> &notice) {
  bool asked = choice == GemmChoice::cublas || !CublasApi::named().empty();
  if (choice == GemmChoice::own) {
    return std::unique_ptr<GemmLibrary>();
  }
  Result<const CublasApi *> api = CublasApi::load();
  Status status = api.ok() ? success() : api.takeStatus();
  if (status.ok() && !*api) {
    if (!asked) {
      return std::unique_ptr<GemmLibrary>();
    }
    return fail(SMELT_unsupported,
                "cuBLASLt is asked for, but there is no libcublasLt.so.13 or .12 (none is looked for when "
                "SMELT_CUDA_LIBRARY names a driver); name one with SMELT_CUBLAS_LIBRARY, or do without it: "
                "--gemm own");
  }
  std::unique_ptr<GemmLibrary> library;
  if (status.ok()) {
    library.reset(new GemmLibrary(std::move(device), **api, choice));
    if (int code = (*api)->create(&library->handle); code != 0) {
      library->handle = nullptr;
      status = fail(SMELT_unsupported,
                    fmt::format("{} ({}) cannot be started: {}; do without it: --gemm own",
                                (*api)->versionText(), printable((*api)->library), (*api)->statusText(code)));
    }
  }
  if (status.ok()) {
    return library;
  }
  if (asked) {
    return status;
  }
  notice("the artifact's own kernels multiply: " + status.message);
  return std::unique_ptr<GemmLibrary>();
}

GemmLibrary::GemmLibrary(DevicePointer device, const CublasApi &api, GemmChoice choice)
    : device(std::move(device)), api(api), choice(choice) {}

GemmLibrary::~GemmLibrary() {
  (void)device->makeCurrent();
  plans.clear();
  if (handle) {
    api.destroy(handle);
  }
}

GemmLibrary::Key GemmLibrary::keyOf(const Gemm &gemm) {
  return {gemm.rows,
          gemm.outputs,
          gemm.depth,
          gemm.activationStride,
          gemm.weightStride,
          gemm.resultStride,
          alignmentOf(gemm.weight),
          alignmentOf(gemm.activations),
          alignmentOf(addendOf(gemm)),
          alignmentOf(gemm.result),
          gemm.addend != 0};
}

std::string GemmLibrary::problemOf(const Gemm &gemm, const std::string &what) const {
  return fmt::format("{} cannot multiply {} x {} by {} x {}: {}", api.versionText(), gemm.rows, gemm.depth,
                     gemm.depth, gemm.outputs, what);
}

Result<bool> GemmLibrary::prepare(const Gemm &gemm) {
  Key key = keyOf(gemm);
  auto place = plans.find(key);
  if (place == plans.end()) {
    Result<std::unique_ptr<Plan>> plan = choose(gemm);
    if (!plan.ok()) {
      return plan.takeStatus();
    }
    place = plans.emplace(key, std::move(*plan)).first;
  }
  if (!place->second && choice == GemmChoice::cublas) {
    return fail(SMELT_unsupported,
                problemOf(gemm, "it has no algorithm; let the artifact's own kernels do it: --gemm auto"));
  }
  return place->second != nullptr;
}

Result<std::unique_ptr<GemmLibrary::Plan>> GemmLibrary::choose(const Gemm &gemm) const {
  auto plan = std::make_unique<Plan>(api);
  int code = plan->describe(gemm);
  code = code ? code : plan->prefer(gemm);
  if (code != 0) {
    return fail(SMELT_internal, problemOf(gemm, "describing it: " + api.statusText(code)));
  }
  MatmulChoice found = {};
  int count = 0;
  code = api.chooseAlgorithm(handle, plan->desc, plan->a, plan->b, plan->c, plan->c, plan->preference, 1,
                             &found, &count);
  if (code != 0 && code != cublas_not_supported) {
    return fail(SMELT_internal, problemOf(gemm, "choosing an algorithm: " + api.statusText(code)));
  }
  if (code != 0 || count < 1 || found.state != 0 || found.workspaceBytes > workspaceBytes) {
    return std::unique_ptr<Plan>();
  }
  plan->algorithm = found.algorithm;
  return plan;
}

Status GemmLibrary::run(const Gemm &gemm, DevicePtr workspace, Stream stream) {
  const Plan &plan = *plans.at(keyOf(gemm));
  float beta = gemm.addend ? 1 : 0;
  int code = api.matmul(handle, plan.desc, &gemm.scale, pointer(gemm.weight), plan.a,
                        pointer(gemm.activations), plan.b, &beta, pointer(addendOf(gemm)), plan.c,
                        pointer(gemm.result), plan.c, &plan.algorithm, pointer(workspace), workspaceBytes,
                        stream);
  return code == 0 ? success() : fail(SMELT_internal, problemOf(gemm, api.statusText(code)));
}

std::string GemmLibrary::describe() const {
  auto without = std::count_if(plans.begin(), plans.end(), [](const auto &plan) { return !plan.second; });
  return without ? fmt::format("{}, own kernels for {} products it has no algorithm for", api.versionText(),
                               without)
                 : api.versionText();
}

} // namespace smelt::runtime::cuda
