#include "tests/compiler/Codegen/KernelHarness.h"

#include "compiler/Codegen/CPU/ImageLinker.h"

#include <catch2/catch.hpp>

using namespace smelt::codegen;

namespace {
const KernelDesc kRoute{
    "route_e8_k2", "route", {{"experts", 8}, {"top_k", 2}, {"router", 0}, {"renormalize", 1}}};
}

TEST_CASE("one image per level holds every kernel and is the same whatever the number of threads") {
  std::vector<const cpu::IsaLevel *> levels;
  for (const cpu::IsaLevel &level : cpu::isaLevels()) {
    levels.push_back(&level);
  }
  std::vector<KernelDesc> kernels = {kRoute, {"moe_plan_e8_k2", "moe_plan", {{"experts", 8}, {"top_k", 2}}}};
  cpu::CompiledKernels one, four;
  std::string error;
  REQUIRE(cpu::compileKernels(kernels, levels, {.threads = 1, .progress = {}}, one, error));
  REQUIRE(cpu::compileKernels(kernels, levels, {.threads = 4, .progress = {}}, four, error));
  REQUIRE(one.images.size() == levels.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    CHECK(one.images[i].isa == levels[i]->name);
    CHECK(one.images[i].features == levels[i]->required);
    CHECK(one.images[i].entries.size() == kernels.size());
    CHECK(one.images[i].bytes == four.images[i].bytes);
    CHECK(one.images[i].entries == four.images[i].entries);
  }
}

TEST_CASE("an unknown role is refused by name") {
  cpu::CompiledKernels result;
  std::string error;
  CHECK_FALSE(
      cpu::compileKernels({{"k", "no_such_role", {}}}, {&cpu::isaLevels().front()}, {}, result, error));
  CHECK(error == "kernel 'k' for x86-64-v4+bf16: the cpu target has no kernel of role 'no_such_role'");
}

TEST_CASE("text forms show the instructions the level promises") {
  KernelDesc linear{"linear", "linear_residual", {{"in", 64}, {"out", 64}, {"layout", 1}, {"dtype", 1}}};
  auto assembly = [&](const char *level) {
    std::string text, error;
    REQUIRE(cpu::printKernel(linear, *cpu::findIsaLevel(level), cpu::TextForm::assembly, text, error));
    return text;
  };
  CHECK(assembly("x86-64-v4+bf16").find("vdpbf16ps") != std::string::npos);
  CHECK(assembly("x86-64-v4").find("%zmm") != std::string::npos);
  CHECK(assembly("x86-64-v4").find("vdpbf16ps") == std::string::npos);
  CHECK(assembly("x86-64-v3").find("%zmm") == std::string::npos);
  CHECK(assembly("x86-64-v3").find("vfmadd") != std::string::npos);
}

TEST_CASE("a level without bf16 registers holds a bf16 as its bits") {
  // With bf16 values in LLVM's hands the object may call __truncsfbf2, which no kernel has.
  const std::map<std::string, int64_t> params = {
      {"in", 36},       {"out", 22},    {"outs", 1},     {"out0", 22},
      {"out1", 0},      {"out2", 0},    {"norm", 1},     {"emit_norm", 1},
      {"gather", 0},    {"bias", 1},    {"layout", 1},   {"vocab", 50},
      {"hidden", 36},   {"experts", 7}, {"top_k", 7},    {"expert_hidden", 22},
      {"head_dim", 18}, {"kv", 2},      {"kv_heads", 2}, {"query_heads", 4},
      {"qk_norm", 1},
  };
  for (int64_t type : {1, 2}) {
    for (const char *role : {"embed", "norm_linear", "linear_residual", "gate_up", "rope_append", "attention",
                             "experts_gate_up", "experts_down"}) {
      CAPTURE(role, type);
      KernelDesc kernel{"k", role, params};
      kernel.params["dtype"] = type;
      std::string text, error;
      const bool printed =
          cpu::printKernel(kernel, *cpu::findIsaLevel("x86-64-v3"), cpu::TextForm::llvm, text, error);
      INFO(error);
      REQUIRE(printed);
      CHECK(text.find("bfloat") == std::string::npos);
    }
  }
}

TEST_CASE("the linker refuses what an image cannot carry") {
  cpu::LinkedObject result;
  std::string error;
  CHECK_FALSE(cpu::linkObject("not an object", "entry", result, error));
  CHECK(error.find("the object of 'entry' cannot be linked: ") == 0);
}
