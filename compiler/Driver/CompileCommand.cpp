// smeltc compile: a spec to an artifact, or to the text of a stage on the way.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Compilation.h"
#include "compiler/Driver/CompileText.h"
#include "compiler/Driver/Console.h"
#include "compiler/Driver/FileOutput.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Phases.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Lowering/Pipeline.h"
#include "compiler/Spec/Suggest.h"
#include "runtime/src/Text.h"
#include "runtime/tools/smelt-run/StopSignal.h"

#include <nlohmann/json.hpp>

namespace smelt::driver {

namespace {

enum class Emit { artifact, smelt, llvm, assembly, ptx, cubin, sass_stats };

class CompileCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("SPEC", spec_path, "The model, a TOML file")->type_name("FILE")->required();
    app.add_option("-o,--output", output,
                   "The artifact, model.smelt; with --emit a text file (default: stdout)")
        ->type_name("FILE");
    app.add_option("--target", target_names,
                   fmt::format("Machines to compile for, comma separated: {} (default cpu)",
                               fmt::join(knownTargets(), ", ")))
        ->delimiter(',')
        ->type_name("TARGET");
    app.add_flag("--ptx-only", options.ptx_only,
                 "For GPUs carry PTX alone, which the driver assembles, even where a CUDA toolkit is found");
    app.add_option(
           "--weights-dtype", options.weights,
           "Type of the weights it will read (default bf16); i8 is 8-bit projections beside bf16, made "
           "by 'weights quantize' or when they are loaded")
        ->transform(choice<mlir::smelt::DType>({{"f32", mlir::smelt::DType::f32},
                                                {"bf16", mlir::smelt::DType::bf16},
                                                {"i8", mlir::smelt::DType::i8}}))
        ->type_name("f32|bf16|i8");
    app.add_option("--kv-dtype", kv_cache,
                   "Type in which keys and values are cached (default: f32 on CPUs, bf16 on GPUs)")
        ->transform(choice<mlir::smelt::DType>(
            {{"f32", mlir::smelt::DType::f32}, {"bf16", mlir::smelt::DType::bf16}}))
        ->type_name("f32|bf16");
    app.add_option("--isa", isa_names,
                   "Instruction sets to carry code for, comma separated (default: those of " +
                       fmt::format("{}", fmt::join(knownIsas(), ", ")) +
                       " that the type of the weights gains from)")
        ->delimiter(',')
        ->type_name("ISA");
    app.add_flag("--unroll-visits", options.unroll_visits,
                 "Straight-line code instead of loops over visits; the results are the same bits");
    app.add_option("--emit", emit,
                   "Print a stage instead: the model in the smelt dialect; the kernels of the CPU as LLVM IR "
                   "or assembly; "
                   "those of a GPU as PTX, as the cubin of one target, or as a table of what they take")
        ->transform(choice<Emit>({{"smelt", Emit::smelt},
                                  {"llvm", Emit::llvm},
                                  {"asm", Emit::assembly},
                                  {"ptx", Emit::ptx},
                                  {"cubin", Emit::cubin},
                                  {"sass-stats", Emit::sass_stats}}))
        ->type_name("smelt|llvm|asm|ptx|cubin|sass-stats");
    app.add_option("--until", until, untilHelp())->type_name("PHASE");
    app.add_option("--kernel", kernel_name, "With --emit llvm, asm, ptx or sass-stats: this kernel alone")
        ->type_name("NAME");
    app.add_option("--threads", options.threads, "Kernels to compile at once (default: one per processor)")
        ->check(wholeNumber(1, 1024))
        ->type_name("N");
    app.add_flag("--timing", timing, "Print what every phase, and every kernel of CPUs, took to stderr");
    app.add_flag("--json", json, "Print one JSON object about the artifact");
  }

  smelt_status run() override {
    checkOptions();
    runtime::StopSignal stop;
    Progress progress(phaseCount());
    Compilation compilation(options, progress);
    compilation.readSpec(spec_path);
    compilation.buildModel();
    compilation.lower(emit == Emit::smelt ? until : "");
    if (emit == Emit::artifact) {
      compileArtifact(compilation, progress);
    } else {
      std::string text = emittedText(compilation);
      progress.finish();
      output.empty() ? printResult(text) : writeFile(output, text);
    }
    if (timing) {
      bool kernels = options.cpu && emit == Emit::artifact;
      fmt::print(stderr, "{}{}", formatTimes(progress.times()), kernels ? compilation.kernelTimes() : "");
    }
    return SMELT_ok;
  }

private:
  static std::vector<std::string> knownIsas() {
    std::vector<std::string> names;
    for (const codegen::cpu::IsaLevel &level : codegen::cpu::isaLevels()) {
      names.push_back(level.name);
    }
    return names;
  }

  static std::vector<std::string> knownTargets() {
    std::vector<std::string> names = {"cpu"};
    for (const codegen::cuda::Target &target : codegen::cuda::targets()) {
      names.push_back(target.name());
    }
    return names;
  }

  // The phases after which --emit smelt can print the modules of the targets.
  std::vector<std::string> printablePhases() const {
    std::vector<std::string> names = {phase_build};
    if (options.unroll_visits) {
      names.push_back(phase_unroll);
    }
    auto kind = options.cpu ? lowering::ProgramKind::cpu : lowering::ProgramKind::cuda_short;
    for (const lowering::Phase &phase : lowering::phases(kind)) {
      names.push_back(phase.name);
    }
    return names;
  }

  std::string untilHelp() const {
    return fmt::format("With --emit smelt: print after this phase: {} (default build)",
                       fmt::join(printablePhases(), ", "));
  }

  void checkOptions() {
    auto usage = [](const std::string &problem) {
      throw UserError(SMELT_usage, problem + "\ntry 'smeltc compile --help'");
    };
    if (output.empty() && emit == Emit::artifact) {
      usage("-o FILE is required, or --emit");
    }
    if (!until.empty() && emit != Emit::smelt) {
      usage("--until goes with --emit smelt");
    }
    if (!kernel_name.empty() && (emit == Emit::artifact || emit == Emit::smelt || emit == Emit::cubin)) {
      usage("--kernel goes with --emit llvm, asm, ptx or sass-stats");
    }
    chooseTargets(usage);
    if (json && emit != Emit::artifact) {
      usage("--json and --emit both print to stdout; ask for one of them");
    }
    std::vector<std::string> phases = printablePhases();
    until = until.empty() ? phase_build : until;
    if (std::find(phases.begin(), phases.end(), until) == phases.end()) {
      usage(fmt::format("--until: '{}' is not one of {}", until, fmt::join(phases, ", ")));
    }
    chooseLevels(usage);
  }

  // GPUs in the order of targets(), whatever the order of the names.
  template <typename Usage> void chooseTargets(Usage usage) {
    const std::vector<std::string> known = knownTargets();
    for (const std::string &name : target_names) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        usage(fmt::format("--target: '{}' is not one of {}", name, fmt::join(known, ", ")));
      }
    }
    auto asked = [&](const std::string &name) {
      return std::find(target_names.begin(), target_names.end(), name) != target_names.end();
    };
    options.cpu = target_names.empty() || asked("cpu");
    for (const codegen::cuda::Target &target : codegen::cuda::targets()) {
      if (asked(target.name())) {
        options.devices.push_back(&target);
      }
    }
    checkTargets(usage);
  }

  template <typename Usage> void checkTargets(Usage usage) {
    bool forGpu = emit == Emit::ptx || emit == Emit::cubin || emit == Emit::sass_stats;
    bool forCpu = emit == Emit::llvm || emit == Emit::assembly;
    if (forGpu && options.devices.empty()) {
      usage("--emit ptx, cubin and sass-stats need a GPU target, e.g. --target cuda:sm_90a");
    }
    if (forCpu && !options.cpu) {
      usage("--emit llvm and asm print the code of CPUs; --target names none");
    }
    if (!isa_names.empty() && !options.cpu) {
      usage("--isa goes with --target cpu");
    }
    if (options.ptx_only && options.devices.empty()) {
      usage("--ptx-only goes with a GPU target, e.g. --target cuda:sm_90a");
    }
    if (emit == Emit::cubin && (options.devices.size() != 1 || options.ptx_only || output.empty())) {
      usage("--emit cubin writes one binary file: it needs -o FILE and a single GPU target, without "
            "--ptx-only");
    }
    if (!options.devices.empty() && kv_cache == mlir::smelt::DType::f32) {
      usage("GPU targets cache keys and values in bf16; --kv-dtype f32 is for --target cpu alone");
    }
    options.kv_cache = kv_cache.value_or(mlir::smelt::DType::f32);
    if (!options.devices.empty() && options.weights != mlir::smelt::DType::bf16) {
      usage(fmt::format("--weights-dtype {} is for --target cpu alone; GPU targets read bf16 weights",
                        mlir::smelt::stringifyDType(options.weights).str()));
    }
  }

  // In the order of isaLevels(), best first, whatever the order of the names.
  template <typename Usage> void chooseLevels(Usage usage) {
    for (const std::string &name : isa_names) {
      if (!codegen::cpu::findIsaLevel(name)) {
        usage(fmt::format("--isa: '{}' is not one of {}", name, fmt::join(knownIsas(), ", ")));
      }
    }
    using mlir::smelt::DType;
    codegen::WeightType weights = options.weights == DType::f32    ? codegen::WeightType::f32
                                  : options.weights == DType::bf16 ? codegen::WeightType::bf16
                                                                   : codegen::WeightType::i8;
    for (const codegen::cpu::IsaLevel &level : codegen::cpu::isaLevels()) {
      bool named = std::find(isa_names.begin(), isa_names.end(), level.name) != isa_names.end();
      if (isa_names.empty() ? level.gains(weights) : named) {
        options.levels.push_back(&level);
      }
    }
  }

  size_t phaseCount() const {
    PhaseChoice choice = {options.unroll_visits, options.cpu, !options.devices.empty()};
    size_t all = compilePhases(choice).size();
    if (emit == Emit::artifact) {
      return all;
    }
    std::vector<std::string> printable = printablePhases();
    auto last = std::find(printable.begin(), printable.end(), emit == Emit::smelt ? until : printable.back());
    size_t cuda = options.devices.empty() ? 0 : emit == Emit::smelt ? 1 : 2;
    return static_cast<size_t>(last - printable.begin()) + 2 + cuda; // "read" comes before them
  }

  void compileArtifact(Compilation &compilation, Progress &progress) {
    // Finds out now, not after the work, whether the file can be written.
    checkWritable(output);
    compilation.generateCode();
    std::vector<uint8_t> bytes = compilation.serialize();
    writeFile(output, std::as_bytes(std::span(bytes)));
    progress.finish();
    size_t kernel_count = options.cpu ? compilation.kernels().size() : compilation.deviceRequests().size();
    if (json) {
      printResult(summaryJson(kernel_count, bytes.size(), progress));
      return;
    }
    printResult(output + "\n");
    printNote(fmt::format("{} kernels for {}, {}", kernel_count, fmt::join(codeNames(), ", "),
                          runtime::formatBytes(bytes.size())));
  }

  std::vector<std::string> levelNames() const {
    std::vector<std::string> names;
    for (const codegen::cpu::IsaLevel *level : options.levels) {
      names.push_back(level->name);
    }
    return names;
  }

  // Of all code in the artifact: ISA levels and GPU targets.
  std::vector<std::string> codeNames() const {
    std::vector<std::string> names = options.cpu ? levelNames() : std::vector<std::string>();
    for (const codegen::cuda::Target *target : options.devices) {
      names.push_back(target->name());
    }
    return names;
  }

  std::string summaryJson(size_t kernel_count, size_t bytes, const Progress &progress) const {
    nlohmann::ordered_json object;
    object["artifact"] = output;
    object["bytes"] = bytes;
    object["kernels"] = kernel_count;
    object["isas"] = options.cpu ? levelNames() : std::vector<std::string>();
    object["devices"] = nlohmann::ordered_json::array();
    for (const codegen::cuda::Target *target : options.devices) {
      object["devices"].push_back(target->name());
    }
    for (const PhaseTime &time : progress.times()) {
      object["seconds"][time.name] = time.seconds;
    }
    return object.dump(2) + "\n";
  }

  std::string emittedText(Compilation &compilation) const {
    if (emit == Emit::smelt) {
      return compilation.moduleText();
    }
    if (emit == Emit::llvm || emit == Emit::assembly) {
      auto form = emit == Emit::llvm ? codegen::cpu::TextForm::llvm : codegen::cpu::TextForm::assembly;
      return cpuKernelTexts(compilation, options, form, kernel_name);
    }
    compilation.generateDeviceCode();
    if (emit == Emit::ptx) {
      return ptxText(compilation, options, kernel_name);
    }
    if (emit == Emit::sass_stats) {
      return functionStats(compilation, kernel_name);
    }
    const std::vector<uint8_t> &cubin = compilation.deviceCode().front().cubin;
    if (cubin.empty()) {
      throw UserError(SMELT_unsupported,
                      "--emit cubin needs ptxas of a CUDA toolkit that knows the target; none was "
                      "found in CUDA_HOME, /usr/local/cuda or PATH (see 'smeltc doctor')");
    }
    return {cubin.begin(), cubin.end()};
  }

  std::string spec_path;
  std::string output;
  std::vector<std::string> target_names;
  Emit emit = Emit::artifact;
  std::string until;
  std::string kernel_name;
  std::vector<std::string> isa_names;
  std::optional<mlir::smelt::DType> kv_cache;
  CompilationOptions options;
  bool timing = false;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeCompileCommand() { return std::make_unique<CompileCommand>(); }

} // namespace smelt::driver
