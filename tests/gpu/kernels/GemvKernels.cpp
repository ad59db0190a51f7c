// smelt-gpu-kernels: matrix-vector kernels of short steps with every choice of how warps share rows, and not
// only the one the compiler makes, for smelt-gpu-check to time (tests/gpu/Gemv.cpp). prepare.sh calls it; it
// writes a JSON array of
//   role, params     of the kernel, as in a program
//   rows, warps      the kernel's warps in groups of `warps` multiply `rows` rows of each matrix
//   chosen           whether the compiler chooses so
//   capability, exact, target    of the GPUs it runs on
//   function, blocks, threads, shared_bytes, ptx    how it is launched for one token
#include "compiler/Codegen/CUDA/CompileKernels.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>

using namespace smelt::codegen;
using nlohmann::ordered_json;

namespace {

using Params = std::map<std::string, int64_t>;

// One way for warps to share rows: the parameter that forces it.
struct Choice {
  int64_t rows, warps;
  const char *param;
  int64_t value;
};

// Blocks along one dimension for one token.
int64_t blocks(const cuda::GridSize &size) {
  int64_t total = size.fixed + size.per_token;
  return std::max<int64_t>(1, (total + size.divisor - 1) / size.divisor);
}

cuda::CompiledTarget compile(const std::string &role, const Params &params, const cuda::Target &target) {
  cuda::KernelRequest request;
  request.kernel.role = request.kernel.name = role;
  request.kernel.params = params;
  request.length = cuda::StepLength::brief;
  cuda::CompileOptions options;
  options.ptx_only = true;
  cuda::CompiledTarget compiled;
  std::string error;
  if (!cuda::compileKernels({request}, target, options, compiled, error)) {
    throw std::runtime_error(error);
  }
  const cuda::ScratchSize &scratch = compiled.kernels[0].scratch;
  if (compiled.kernels[0].stages.size() != 1 || scratch.bytes || scratch.per_token) {
    throw std::runtime_error(role + ": not one launch without scratch");
  }
  return compiled;
}

ordered_json kernelsOf(const std::string &role, const Params &params, const std::vector<Choice> &choices,
                       const cuda::Target &target) {
  ordered_json kernels = ordered_json::array();
  std::string chosen = compile(role, params, target).ptx;
  for (const Choice &choice : choices) {
    Params forced = params;
    forced[choice.param] = choice.value;
    cuda::CompiledTarget compiled = compile(role, forced, target);
    const cuda::Stage &stage = compiled.kernels[0].stages[0];
    kernels.push_back({{"role", role},
                       {"params", params},
                       {"rows", choice.rows},
                       {"warps", choice.warps},
                       {"chosen", compiled.ptx == chosen},
                       {"capability", target.compute_capability},
                       {"exact", target.exact},
                       {"target", target.name()},
                       {"function", stage.function},
                       {"blocks", {blocks(stage.grid[0]), blocks(stage.grid[1])}},
                       {"threads", stage.threads},
                       {"shared_bytes", stage.shared_bytes},
                       {"ptx", compiled.ptx}});
  }
  if (std::count_if(kernels.begin(), kernels.end(), [](const auto &kernel) { return kernel["chosen"]; }) !=
      1) {
    throw std::runtime_error(role + ": the compiler's choice is not one of those that are forced");
  }
  return kernels;
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Matrix-vector kernels of short steps, as many ways as warps can share rows.");
  std::string chip = "cuda:sm_90a", file;
  Params experts = {{"hidden", 1848}, {"expert_hidden", 616}, {"top_k", 8}},
         linear = {{"in", 1512}, {"out", 1848}};
  app.add_option("--target", chip, "One target of smeltc compile")->capture_default_str();
  for (Params *params : {&experts, &linear}) {
    for (auto &[name, value] : *params) {
      std::string option = "--" + name;
      std::replace(option.begin(), option.end(), '_', '-');
      app.add_option(option, value, params == &experts ? "Of the experts" : "Of the dense product")
          ->capture_default_str()
          ->check(CLI::PositiveNumber);
    }
  }
  app.add_option("file", file, "The JSON file to write")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    const cuda::Target *target = cuda::findTarget(chip);
    if (!target) {
      throw std::runtime_error(chip + ": no such target; smeltc compile --help lists them");
    }
    // A step only reads experts that were chosen; how many there are changes nothing.
    experts["experts"] = experts["top_k"];
    experts["dtype"] = linear["dtype"] = 1;
    ordered_json kernels =
        kernelsOf("experts_gate_up_direct", experts,
                  {{8, 1, "warps", 1}, {8, 2, "warps", 2}, {8, 4, "warps", 4}, {8, 8, "warps", 8}}, *target);
    for (ordered_json &kernel : kernelsOf(
             "linear_residual", linear,
             {{1, 1, "rows_per_warp", 1}, {2, 1, "rows_per_warp", 2}, {4, 1, "rows_per_warp", 4}}, *target)) {
      kernels.push_back(std::move(kernel));
    }
    std::ofstream stream(file);
    stream << kernels.dump(1) << "\n";
    if (!stream.flush()) {
      throw std::runtime_error(file + ": cannot be written");
    }
  } catch (const std::exception &problem) {
    std::fprintf(stderr, "smelt-gpu-kernels: error: %s\n", problem.what());
    return 2;
  }
  return 0;
}
