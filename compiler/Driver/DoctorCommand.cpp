// smeltc doctor: what this machine has, and what is missing for what.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/CudaProbe.h"
#include "compiler/Driver/Version.h"
#include "runtime/src/Text.h"
#include "smelt/artifact.h"
#include "smelt/runtime.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <unistd.h>

namespace smelt::driver {

namespace {

struct CpuReport {
  std::string model;
  unsigned threads = 0;
  std::vector<std::string> features;
  std::string isa;
  bool supported = false;
};

std::string cpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

CpuReport inspectCpu() {
  CpuReport report{cpuModel(), std::thread::hardware_concurrency(), {}, smelt_cpu_isa(), false};
  uint64_t bits = smelt_cpu_features();
  for (auto [bit, name] : {std::pair{SMELT_CPU_AVX2, "avx2+fma"},
                           {SMELT_CPU_AVX512, "avx512"},
                           {SMELT_CPU_AVX512_BF16, "avx512_bf16"},
                           {SMELT_CPU_AVX512_VNNI, "avx512_vnni"}}) {
    if (bits & static_cast<uint64_t>(bit)) {
      report.features.emplace_back(name);
    }
  }
  report.supported = (bits & SMELT_CPU_AVX2) != 0;
  return report;
}

uint64_t totalMemory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The first line of a possibly long answer of the loader.
std::string show(const Finding &finding) {
  return (finding.found ? "" : "not found: ") + finding.detail.substr(0, finding.detail.find('\n'));
}

class DoctorCommand : public Command {
public:
  void declare(CLI::App &app) override { app.add_flag("--json", json, "Print one JSON object"); }

  smelt_status run() override {
    CpuReport cpu = inspectCpu();
    CudaProbe cuda = probeCuda();
    printResult(json ? asJson(cpu, cuda) : asText(cpu, cuda));
    return cpu.supported ? SMELT_ok : SMELT_unsupported;
  }

private:
  static bool canRun(const CudaProbe &cuda) {
    return std::any_of(cuda.devices.begin(), cuda.devices.end(),
                       [](const CudaDevice &device) { return device.major >= 8; });
  }

  static std::string cudaVerdict(const CudaProbe &cuda) {
    std::string assembler = cuda.ptxas.found ? "compiles" : "compiles to PTX, which the driver assembles";
    if (canRun(cuda)) {
      return fmt::format("ready: {}, runs with --device cuda", assembler);
    }
    return fmt::format("{}, but {} to run it", assembler,
                       cuda.devices.empty() ? "there is no GPU" : "a GPU of sm_80 or newer is missing");
  }

  static std::string asText(const CpuReport &cpu, const CudaProbe &cuda) {
    std::string text;
    auto line = [&](std::string_view name, std::string_view value) {
      text += fmt::format("{:<12}  {}\n", name, value);
    };
    line("version", versionText());
    line("CPU", fmt::format("{}, {} threads", cpu.model, cpu.threads));
    line("features",
         cpu.features.empty() ? "none that smeltc uses" : fmt::format("{}", fmt::join(cpu.features, " ")));
    line("code level", cpu.isa);
    line("memory", fmt::format("{} of {} available", runtime::formatBytes(smelt_available_memory()),
                               runtime::formatBytes(totalMemory())));
    line("CUDA driver", show(cuda.driver));
    for (const CudaDevice &device : cuda.devices) {
      line("GPU", fmt::format("{}, sm_{}{}, {}", device.name, device.major, device.minor,
                              runtime::formatBytes(device.memory)));
    }
    line("cuBLASLt", show(cuda.cublas));
    line("ptxas", show(cuda.ptxas));
    text += "\n";
    line("target cpu", cpu.supported
                           ? "ready: compile and run"
                           : "compiles, but this CPU cannot run it: AVX2 and FMA (x86-64-v3) are missing");
    line("target cuda", cudaVerdict(cuda));
    return text;
  }

  static nlohmann::ordered_json asJson(const Finding &finding) {
    return {{"found", finding.found}, {"detail", finding.detail}};
  }

  static std::string asJson(const CpuReport &cpu, const CudaProbe &cuda) {
    nlohmann::ordered_json object;
    object["version"] = versionText();
    object["cpu"] = {{"model", cpu.model},
                     {"threads", cpu.threads},
                     {"features", cpu.features},
                     {"isa", cpu.isa},
                     {"supported", cpu.supported}};
    object["memory"] = {{"available", smelt_available_memory()}, {"total", totalMemory()}};
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (const CudaDevice &device : cuda.devices) {
      devices.push_back({{"name", device.name},
                         {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
                         {"memory", device.memory}});
    }
    object["cuda"] = {{"driver", asJson(cuda.driver)},
                      {"devices", devices},
                      {"cublas", asJson(cuda.cublas)},
                      {"ptxas", asJson(cuda.ptxas)}};
    object["targets"] = {{"cpu", cpu.supported}, {"cuda", canRun(cuda)}};
    return object.dump(2) + "\n";
  }

  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeDoctorCommand() { return std::make_unique<DoctorCommand>(); }

} // namespace smelt::driver
