#include "compiler/Driver/CompileText.h"

#include "compiler/Driver/UserError.h"
#include "compiler/Report/Table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace smelt::driver {

namespace cuda = codegen::cuda;

[[noreturn]] static void failUnknownKernel(const std::string &kernel, const std::vector<std::string> &known) {
  throw UserError(SMELT_usage,
                  fmt::format("--kernel: '{}' is not one of {}", kernel, fmt::join(known, ", ")));
}

std::string cpuKernelTexts(const Compilation &compilation, const CompilationOptions &options,
                           codegen::cpu::TextForm form, const std::string &kernel) {
  const char *comment = form == codegen::cpu::TextForm::llvm ? ";" : "#";
  std::string all;
  std::vector<std::string> names;
  for (const codegen::KernelDesc &each : compilation.kernels()) {
    names.push_back(each.name);
    if (!kernel.empty() && each.name != kernel) {
      continue;
    }
    for (const codegen::cpu::IsaLevel *level : options.levels) {
      std::string text, error;
      if (!codegen::cpu::printKernel(each, *level, form, text, error)) {
        throw std::logic_error(error);
      }
      all += fmt::format("{} kernel {}, role {}, {}\n{}\n", comment, each.name, each.role, level->name, text);
    }
  }
  if (all.empty()) {
    failUnknownKernel(kernel, names);
  }
  return all;
}

static const char *lengthText(cuda::StepLength length) {
  return length == cuda::StepLength::brief ? "short steps" : "any step";
}

std::string ptxText(const Compilation &compilation, const CompilationOptions &options,
                    const std::string &kernel) {
  std::string all;
  if (kernel.empty()) {
    for (const cuda::CompiledTarget &code : compilation.deviceCode()) {
      all += code.ptx;
    }
    return all;
  }
  std::vector<std::string> names;
  for (const cuda::KernelRequest &request : compilation.deviceRequests()) {
    names.push_back(request.kernel.name);
    if (request.kernel.name != kernel) {
      continue;
    }
    for (const cuda::Target *target : options.devices) {
      std::string text, error;
      if (!cuda::printKernel(request, *target, cuda::TextForm::ptx, text, error)) {
        throw std::logic_error(error);
      }
      all += fmt::format("// kernel {}, role {}, {}, {}\n{}\n", kernel, request.kernel.role,
                         lengthText(request.length), target->name(), text);
    }
  }
  if (all.empty()) {
    failUnknownKernel(kernel, names);
  }
  return all;
}

static std::string countText(int64_t count) { return count < 0 ? "-" : std::to_string(count); }

std::string functionStats(const Compilation &compilation, const std::string &kernel) {
  report::Table table(3);
  table.addRow({"target", "function", "steps", "registers", "spilled bytes", "shared bytes", "threads",
                "bytes", "FLOPs"});
  const std::vector<cuda::KernelRequest> requests = compilation.deviceRequests();
  const std::vector<artifact::KernelWork> work = compilation.deviceWork();
  bool any = false;
  for (const cuda::CompiledTarget &code : compilation.deviceCode()) {
    std::map<std::string, const cuda::FunctionStats *> stats;
    for (const cuda::FunctionStats &each : code.stats) {
      stats[each.function] = &each;
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!kernel.empty() && requests[i].kernel.name != kernel) {
        continue;
      }
      any = true;
      for (const cuda::Stage &stage : code.kernels[i].stages) {
        const cuda::FunctionStats known =
            stats.count(stage.function) ? *stats.at(stage.function) : cuda::FunctionStats{};
        bool counted = known.registers >= 0, first = &stage == &code.kernels[i].stages.front();
        table.addRow({code.target.name(), stage.function, lengthText(requests[i].length),
                      countText(known.registers),
                      counted ? std::to_string(known.spill_store_bytes + known.spill_load_bytes) : "-",
                      std::to_string(std::max<int64_t>(known.static_shared_bytes, 0) + stage.shared_bytes),
                      std::to_string(stage.threads), first ? report::groupDigits(work[i].bytes) : "",
                      first ? report::groupDigits(work[i].flops) : ""});
      }
    }
  }
  if (!any) {
    std::vector<std::string> names;
    for (const cuda::KernelRequest &request : requests) {
      names.push_back(request.kernel.name);
    }
    failUnknownKernel(kernel, names);
  }
  return table.text();
}

} // namespace smelt::driver
