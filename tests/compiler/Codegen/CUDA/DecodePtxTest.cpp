// What must be in the PTX of short steps, and what ptxas makes of it.
#include "tests/compiler/Codegen/CUDA/CudaHarness.h"
#include "tests/compiler/Codegen/CUDA/PublishedCell.h"

#include "compiler/Codegen/CUDA/Ptxas.h"

#include <catch2/catch.hpp>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;
using namespace smelt::codegen::test;

namespace {

// Other shapes of the same roles: heads with norms, long rows, many experts, few and odd sizes.
std::vector<KernelRequest> otherShapes() {
  return {
      brief("norm_qkv_rope", {{"in", 2048},
                              {"query_heads", 32},
                              {"kv_heads", 4},
                              {"head_dim", 128},
                              {"qk_norm", 1},
                              {"bias", 1},
                              {"dtype", 1},
                              {"kv", 1}}),
      brief("norm_qkv_rope", {{"in", 2048},
                              {"query_heads", 16},
                              {"kv_heads", 16},
                              {"head_dim", 128},
                              {"qk_norm", 2},
                              {"bias", 0},
                              {"dtype", 1},
                              {"kv", 1}}),
      brief("norm_qkv_rope", {{"in", 24},
                              {"query_heads", 2},
                              {"kv_heads", 1},
                              {"head_dim", 6},
                              {"qk_norm", 0},
                              {"bias", 1},
                              {"dtype", 1},
                              {"kv", 1}}),
      brief("attention", {{"query_heads", 32}, {"kv_heads", 4}, {"head_dim", 128}, {"kv", 1}}),
      brief("attention", {{"query_heads", 16}, {"kv_heads", 2}, {"head_dim", 256}, {"kv", 1}}),
      brief("attention", {{"query_heads", 2}, {"kv_heads", 1}, {"head_dim", 6}, {"kv", 1}}),
      brief("linear_residual", {{"in", 14336}, {"out", 4096}, {"dtype", 1}}),
      brief(
          "norm_route",
          {{"in", 4096}, {"experts", 4096}, {"top_k", 40}, {"router", 1}, {"renormalize", 0}, {"dtype", 1}}),
      brief("norm_route", {{"in", 2048},
                           {"experts", 60},
                           {"top_k", 4},
                           {"router", 0},
                           {"renormalize", 0},
                           {"dtype", 1},
                           {"shared", 5632}}),
      brief("experts_gate_up_direct", {{"hidden", 2048},
                                       {"expert_hidden", 1408},
                                       {"experts", 60},
                                       {"top_k", 4},
                                       {"dtype", 1},
                                       {"shared", 5632}}),
      brief("experts_gate_up_direct",
            {{"hidden", 4096}, {"expert_hidden", 14336}, {"experts", 8}, {"top_k", 2}, {"dtype", 1}}),
      brief("experts_down_residual",
            {{"hidden", 4096}, {"expert_hidden", 14336}, {"experts", 8}, {"top_k", 2}, {"dtype", 1}}),
      brief("experts_down_residual",
            {{"hidden", 24}, {"expert_hidden", 20}, {"experts", 40}, {"top_k", 17}, {"dtype", 1}}),
  };
}

std::vector<KernelRequest> allKernels() {
  Cell cell = publishedCell();
  std::vector<KernelRequest> all = cell.layer, others = otherShapes();
  all.insert(all.end(), cell.ends.begin(), cell.ends.end());
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

size_t count(const std::string &text, const std::string &what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) {
    ++found;
  }
  return found;
}

const char *WEIGHT_LOAD = "ld.global.nc.L1::no_allocate.v4.b32";

std::string ptxOf(const KernelRequest &request, const Target &target) {
  std::string text, error;
  bool prints = printKernel(request, target, TextForm::ptx, text, error);
  INFO(error);
  REQUIRE(prints);
  return text;
}

// What a block of a kernel of short steps may take, so that a multiprocessor holds as many warps as the loads
// of each are planned for.
struct Budget {
  int64_t registers, shared_bytes;
};
Budget budgetOf(const KernelDesc &kernel) {
  static const std::map<std::string, Budget> table = {
      {"embed", {32, 0}},
      {"norm_linear", {192, 40 << 10}},
      {"linear_residual", {168, 40 << 10}},
      {"gate_up", {192, 40 << 10}},
      {"norm_qkv_rope", {168, 40 << 10}},
      {"attention", {208, 48 << 10}},
      {"norm_route", {168, 48 << 10}},
      {"experts_gate_up_direct", {102, 20 << 10}},
      {"experts_down_residual", {128, 64 << 10}},
      {"argmax", {64, 1 << 10}},
      {"sample", {128, 68 << 10}},
  };
  Budget budget = table.at(kernel.role);
  if (kernel.params.count("qk_norm") && kernel.param("qk_norm") == 1) {
    budget.registers = 255; // a block a head: one for a multiprocessor
  }
  if (kernel.role == "experts_gate_up_direct" && kernel.params.count("shared")) {
    budget = {128, 40 << 10}; // blocks of a dense product besides: four on a multiprocessor and not five
  }
  return budget;
}

} // namespace

TEST_CASE("the PTX of short steps has what it must have") {
  const Target &target = *findTarget("sm_90a");
  for (const KernelRequest &request : allKernels()) {
    CAPTURE(request.kernel.name);
    std::string ptx = ptxOf(request, target);
    CHECK(count(ptx, ".entry") == 1);
    CHECK(count(ptx, ".reqntid ") == 1);
    CHECK(count(ptx, ".extern .func") == 0);
    // Dynamic shared memory is external; were that lost, it would be one static byte.
    CHECK(count(ptx, ".extern .shared .align 128 .b8 smelt_shared[]") == count(ptx, ".shared .align"));
    // Weights and the cache come in pieces of 16 bytes, and nothing of them in smaller ones.
    CHECK(count(ptx, WEIGHT_LOAD) > 0);
    for (size_t at = ptx.find("shfl.sync"); at != std::string::npos; at = ptx.find("shfl.sync", at + 1)) {
      std::string line = ptx.substr(at, ptx.find(';', at) - at);
      CHECK_THAT(line, Catch::EndsWith(", -1")); // always all lanes
    }
  }
}

TEST_CASE("the last block to arrive is told by fences and a counter") {
  Cell cell = publishedCell();
  for (const KernelRequest &request : {cell.layer[1], cell.layer[3]}) {
    std::string ptx = ptxOf(request, *findTarget("sm_80"));
    size_t release = ptx.find("fence.acq_rel.gpu"), counter = ptx.find("atom.", release);
    CHECK(release < counter);
    CHECK(counter < ptx.find("fence.acq_rel.gpu", counter)); // acquires
    CHECK(count(ptx, "atom.") == 1);
    CHECK(count(ptx, "fence.acq_rel.gpu") == 2);
  }
}

TEST_CASE("the first weights are asked for before the activations are waited for") {
  Cell cell = publishedCell();
  for (size_t i : {0, 2, 3, 4, 5}) {
    std::string ptx = ptxOf(cell.layer[i], *findTarget("sm_90a"));
    std::string before = ptx.substr(0, ptx.find("barrier.sync"));
    if (before.size() == ptx.size()) {
      before = ptx.substr(0, ptx.find("bar.sync"));
    }
    CAPTURE(cell.layer[i].kernel.role);
    CHECK(before.size() < ptx.size());
    CHECK(count(before, WEIGHT_LOAD) >= 4);
  }
}

TEST_CASE("PTX versions are those of the targets, and output is the same every time") {
  for (const Target &target : targets()) {
    std::string ptx = ptxOf(publishedCell().ends[0], target);
    CHECK(ptx.find(".target " + target.chip) != std::string::npos);
    std::string version = std::to_string(target.ptx_version);
    CHECK(ptx.find(".version " + version.substr(0, 1) + "." + version.substr(1)) != std::string::npos);
    CHECK(ptx == ptxOf(publishedCell().ends[0], target));
  }
}

TEST_CASE("equal requests share functions, unknown ones fail by name") {
  CompiledTarget result;
  std::string error;
  CompileOptions options;
  options.ptx_only = true;
  const Target &target = *findTarget("cuda:sm_80");
  KernelRequest embed = publishedCell().ends[0];
  REQUIRE(compileKernels({embed, embed}, target, options, result, error));
  CHECK(result.kernels[0].stages[0].function == result.kernels[1].stages[0].function);
  CHECK(count(result.ptx, ".entry") == 1);
  CHECK(result.cubin.empty());
  REQUIRE(result.stats.size() == 1);
  CHECK(result.stats[0].registers == -1);
  CHECK(result.kernels[0].stages[0].function == embed.kernel.name + "_0_short");

  CHECK_FALSE(compileKernels({brief("fold_laundry", {})}, target, options, result, error));
  CHECK_THAT(error, Catch::Contains("fold_laundry") && Catch::Contains("cuda:sm_80"));
  KernelRequest f32 = embed;
  f32.kernel.params["dtype"] = 0;
  CHECK_FALSE(compileKernels({f32}, target, options, result, error));
  CHECK_THAT(error, Catch::Contains("bf16"));
  KernelRequest wide = publishedCell().layer[4];
  wide.kernel.params["hidden"] = 30000;
  CHECK_FALSE(compileKernels({wide}, target, options, result, error));
  CHECK_THAT(error, Catch::Contains("hidden = 30000"));
  CHECK(findTarget("sm_75") == nullptr);
}

TEST_CASE("ptxas takes every kernel of short steps without spills or warnings") {
  if (findPtxas().empty()) {
    WARN("skipped: no ptxas in CUDA_HOME, PATH or /usr/local/cuda");
    return;
  }
  std::vector<KernelRequest> requests = allKernels(), sampling = publishedCell().sampling;
  requests.insert(requests.end(), sampling.begin(), sampling.end());
  for (const Target &target : targets()) {
    CAPTURE(target.chip);
    CompiledTarget result;
    std::string error;
    bool compiles = compileKernels(requests, target, {}, result, error);
    INFO(error);
    REQUIRE(compiles);
    CHECK(result.warnings == std::vector<std::string>());
    CHECK_FALSE(result.cubin.empty());
    std::map<std::string, const KernelDesc *> kernels; // by function
    for (size_t i = 0; i < requests.size(); ++i) {
      for (const Stage &stage : result.kernels[i].stages) {
        kernels[stage.function] = &requests[i].kernel;
      }
    }
    REQUIRE(result.stats.size() == kernels.size());
    for (const FunctionStats &stats : result.stats) {
      CAPTURE(stats.function, stats.registers, stats.dynamic_shared_bytes);
      CHECK(stats.registers > 0);
      Budget budget = budgetOf(*kernels.at(stats.function));
      CHECK(stats.spill_store_bytes == 0);
      CHECK(stats.spill_load_bytes == 0);
      CHECK(stats.registers <= budget.registers);
      CHECK(stats.static_shared_bytes == 0);
      CHECK(stats.dynamic_shared_bytes <= budget.shared_bytes);
    }
  }
}

TEST_CASE("the log of ptxas is read") {
  PtxasResult result;
  parsePtxasLog(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
      "ptxas info    : Function properties for a\n"
      "    0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 352 bytes cmem[0], 16 bytes smem\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 7 registers, 352 bytes cmem[0]\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas warning : something\n",
      result);
  REQUIRE(result.stats.size() == 2);
  CHECK(result.stats[0].function == "a");
  CHECK(result.stats[0].registers == 40);
  CHECK(result.stats[0].spill_store_bytes == 12);
  CHECK(result.stats[0].spill_load_bytes == 8);
  CHECK(result.stats[0].static_shared_bytes == 16);
  CHECK(result.stats[1].registers == 7);
  CHECK(result.stats[1].static_shared_bytes == 0);
  CHECK(result.warnings.size() == 2);
}
