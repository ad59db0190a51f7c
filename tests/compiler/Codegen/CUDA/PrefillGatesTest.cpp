// What can be known of the any-length kernels without running them: they assemble for every target without
// spills, within a budget of registers, and the PTX has the instructions the templates are about.
#include "compiler/Codegen/CUDA/CompileKernels.h"
#include "compiler/Codegen/CUDA/Ptxas.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace smelt::codegen;
using namespace smelt::codegen::cuda;

namespace {

// The kernels of one model: hidden 1848, 36 / 9 heads of 42, 8 of 504 experts of 616.
std::vector<KernelRequest> kernels() {
  std::vector<KernelDesc> all = {
      {"qkv",
       "norm_linear",
       {{"in", 1848},
        {"outs", 3},
        {"out0", 1512},
        {"out1", 378},
        {"out2", 378},
        {"norm", 1},
        {"emit_norm", 0},
        {"gather", 0},
        {"bias", 1},
        {"dtype", 1}}},
      {"router",
       "norm_linear",
       {{"in", 1848},
        {"outs", 1},
        {"out0", 504},
        {"out1", 0},
        {"out2", 0},
        {"norm", 1},
        {"emit_norm", 1},
        {"gather", 0},
        {"bias", 0},
        {"dtype", 1}}},
      {"head",
       "norm_linear",
       {{"in", 1848},
        {"outs", 1},
        {"out0", 65536},
        {"out1", 0},
        {"out2", 0},
        {"norm", 1},
        {"emit_norm", 0},
        {"gather", 1},
        {"bias", 0},
        {"dtype", 1}}},
      {"output", "linear_residual", {{"in", 1512}, {"out", 1848}, {"dtype", 1}}},
      {"mlp", "gate_up", {{"in", 1848}, {"out", 4928}, {"norm", 1}, {"dtype", 1}}},
      {"rope",
       "rope_append",
       {{"query_heads", 36}, {"kv_heads", 9}, {"head_dim", 42}, {"qk_norm", 2}, {"dtype", 1}, {"kv", 1}}},
      {"attention42", "attention", {{"query_heads", 36}, {"kv_heads", 9}, {"head_dim", 42}, {"kv", 1}}},
      {"attention64", "attention", {{"query_heads", 32}, {"kv_heads", 8}, {"head_dim", 64}, {"kv", 1}}},
      {"attention96", "attention", {{"query_heads", 32}, {"kv_heads", 8}, {"head_dim", 96}, {"kv", 1}}},
      {"attention192", "attention", {{"query_heads", 32}, {"kv_heads", 8}, {"head_dim", 192}, {"kv", 1}}},
      {"up_small",
       "experts_gate_up",
       {{"hidden", 24}, {"expert_hidden", 20}, {"experts", 5}, {"top_k", 2}, {"dtype", 1}}},
      {"attention128", "attention", {{"query_heads", 32}, {"kv_heads", 8}, {"head_dim", 128}, {"kv", 1}}},
      {"attention256", "attention", {{"query_heads", 8}, {"kv_heads", 4}, {"head_dim", 256}, {"kv", 1}}},
      {"route", "route", {{"experts", 504}, {"top_k", 8}, {"router", 0}, {"renormalize", 1}}},
      {"plan", "moe_plan", {{"experts", 504}, {"top_k", 8}}},
      {"up",
       "experts_gate_up",
       {{"hidden", 1848}, {"expert_hidden", 616}, {"experts", 504}, {"top_k", 8}, {"dtype", 1}}},
      {"down",
       "experts_down",
       {{"hidden", 1848}, {"expert_hidden", 616}, {"experts", 504}, {"top_k", 8}, {"dtype", 1}}},
      {"combine", "combine_residual", {{"hidden", 1848}, {"experts", 504}, {"top_k", 8}}}};
  std::vector<KernelRequest> requests;
  for (const KernelDesc &kernel : all) {
    requests.push_back({kernel, StepLength::any});
  }
  return requests;
}

// The text of one function.
std::string bodyOf(const std::string &ptx, const std::string &function) {
  size_t begin = ptx.find(".entry " + function + "(");
  size_t end = ptx.find(".entry ", begin + 7);
  return begin == std::string::npos ? "" : ptx.substr(begin, end == std::string::npos ? end : end - begin);
}

size_t count(const std::string &text, const std::string &what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) {
    ++found;
  }
  return found;
}

CompiledTarget compileFor(const Target &target, bool assemble) {
  CompiledTarget compiled;
  std::string error;
  bool ok = compileKernels(kernels(), target, {.ptx_only = !assemble, .progress = {}}, compiled, error);
  INFO(error);
  REQUIRE(ok);
  return compiled;
}

constexpr const char *MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";

} // namespace

TEST_CASE("kernels of any length assemble for every target: no spills, few registers, no warnings",
          "[cuda]") {
  if (findPtxas().empty()) {
    WARN("no CUDA toolkit: nothing was assembled");
    return;
  }
  for (const Target &target : targets()) {
    CompiledTarget compiled = compileFor(target, true);
    INFO(target.chip);
    CHECK(compiled.warnings == std::vector<std::string>());
    for (const FunctionStats &stats : compiled.stats) {
      INFO(stats.function << ": " << stats.registers << " registers, " << stats.dynamic_shared_bytes
                          << " bytes of shared memory");
      CHECK(stats.spill_store_bytes == 0);
      CHECK(stats.spill_load_bytes == 0);
      CHECK(stats.static_shared_bytes == 0);
      bool product = stats.dynamic_shared_bytes > 16384;
      CHECK(stats.registers <= (product ? 255 : 80));
      CHECK(stats.dynamic_shared_bytes <= 101376);
    }
  }
}

TEST_CASE("kernels of any length use tensor cores, asynchronous copies and ldmatrix", "[cuda]") {
  for (const Target &target : targets()) {
    CompiledTarget compiled = compileFor(target, false);
    INFO(target.chip);
    for (const char *function : {"qkv_1", "router_1", "head_1", "output_1", "mlp_1", "attention42_1"}) {
      std::string body = bodyOf(compiled.ptx, function);
      INFO(function);
      CHECK(count(body, MMA) > 0);
      CHECK(count(body, "cp.async.cg.shared.global") > 0);
      CHECK(count(body, "ldmatrix.sync.aligned.m8n8.x4") > 0);
    }
    for (const char *function : {"up", "down"}) {
      bool wgmma = target.chip == "sm_90a";
      std::string body = bodyOf(compiled.ptx, std::string(function) + (wgmma ? "_2" : "_1"));
      CHECK(count(body, wgmma ? "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16" : MMA) > 0);
      CHECK(count(body, wgmma ? "cp.async.bulk.shared" : "cp.async.cg.shared.global") > 0);
    }
    // LLVM does not know that all lanes of a warp have to meet at an mma; where it is not told, it copies one
    // into both arms of a branch. Every one of the template must come out exactly once, under no condition:
    // 64 keys in tiles of 8 by head size in steps of 16, then the same for the values.
    CHECK(count(bodyOf(compiled.ptx, "attention42_1"), MMA) == 2 * 8 * 3);
    CHECK(count(bodyOf(compiled.ptx, "attention128_1"), MMA) == 2 * 8 * 8);
    for (size_t at = compiled.ptx.find("mma.sync"); at != std::string::npos;
         at = compiled.ptx.find("mma.sync", at + 1)) {
      size_t line = compiled.ptx.rfind('\n', at);
      CHECK(compiled.ptx.find('@', line) > at); // not predicated
    }
  }
}
