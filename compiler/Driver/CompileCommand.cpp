// smeltc compile: a spec to an artifact, or to the text of a stage on the way.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Compilation.h"
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

enum class Emit { artifact, smelt, llvm, assembly };
enum class Target { cpu };

class CompileCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.add_option("SPEC", spec_path, "The model, a TOML file")->type_name("FILE")->required();
    app.add_option("-o,--output", output,
                   "The artifact, model.smelt; with --emit a text file (default: stdout)")
        ->type_name("FILE");
    app.add_option("--target", target, "Machine to compile for (default cpu)")
        ->transform(choice<Target>({{"cpu", Target::cpu}}))
        ->type_name("cpu");
    app.add_option("--weights-dtype", options.weights, "Type of the weights it will read (default bf16)")
        ->transform(choice<mlir::smelt::DType>(
            {{"f32", mlir::smelt::DType::f32}, {"bf16", mlir::smelt::DType::bf16}}))
        ->type_name("f32|bf16");
    app.add_option("--isa", isa_names,
                   "Instruction sets to carry code for, comma separated (default: all of " +
                       fmt::format("{}", fmt::join(knownIsas(), ", ")) + ")")
        ->delimiter(',')
        ->type_name("ISA");
    app.add_flag("--unroll-visits", options.unroll_visits,
                 "Straight-line code instead of loops over visits; the results are the same bits");
    app.add_option(
           "--emit", emit,
           "Print a stage instead: the model in the smelt dialect, or the kernels as LLVM IR or assembly")
        ->transform(choice<Emit>({{"smelt", Emit::smelt}, {"llvm", Emit::llvm}, {"asm", Emit::assembly}}))
        ->type_name("smelt|llvm|asm");
    app.add_option("--until", until, untilHelp())->type_name("PHASE");
    app.add_option("--kernel", kernel_name, "With --emit llvm or asm: this kernel alone")->type_name("NAME");
    app.add_option("--threads", options.threads, "Kernels to compile at once (default: one per processor)")
        ->check(wholeNumber(1, 1024))
        ->type_name("N");
    app.add_flag("--timing", timing, "Print what every phase took to stderr");
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
      std::string text = emit == Emit::smelt ? compilation.moduleText() : kernelTexts(compilation);
      progress.finish();
      output.empty() ? printResult(text) : writeFile(output, text);
    }
    if (timing) {
      fmt::print(stderr, "{}", formatTimes(progress.times()));
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

  // The phases after which --emit smelt can print the module.
  static std::vector<std::string> printablePhases(bool unroll) {
    std::vector<std::string> names;
    for (const PhaseInfo &phase : compilePhases(unroll)) {
      if (phase.name != phase_read && phase.name != phase_codegen && phase.name != phase_write) {
        names.push_back(phase.name);
      }
    }
    return names;
  }

  static std::string untilHelp() {
    return fmt::format("With --emit smelt: print after this phase: {} (default build)",
                       fmt::join(printablePhases(false), ", "));
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
    if (!kernel_name.empty() && emit != Emit::llvm && emit != Emit::assembly) {
      usage("--kernel goes with --emit llvm or --emit asm");
    }
    if (json && emit != Emit::artifact) {
      usage("--json and --emit both print to stdout; ask for one of them");
    }
    std::vector<std::string> phases = printablePhases(options.unroll_visits);
    until = until.empty() ? phase_build : until;
    if (std::find(phases.begin(), phases.end(), until) == phases.end()) {
      usage(fmt::format("--until: '{}' is not one of {}", until, fmt::join(phases, ", ")));
    }
    chooseLevels(usage);
  }

  // In the order of isaLevels(), best first, whatever the order of the names.
  template <typename Usage> void chooseLevels(Usage usage) {
    for (const std::string &name : isa_names) {
      if (!codegen::cpu::findIsaLevel(name)) {
        usage(fmt::format("--isa: '{}' is not one of {}", name, fmt::join(knownIsas(), ", ")));
      }
    }
    for (const codegen::cpu::IsaLevel &level : codegen::cpu::isaLevels()) {
      if (isa_names.empty() || std::find(isa_names.begin(), isa_names.end(), level.name) != isa_names.end()) {
        options.levels.push_back(&level);
      }
    }
  }

  size_t phaseCount() const {
    size_t all = compilePhases(options.unroll_visits).size();
    if (emit == Emit::artifact) {
      return all;
    }
    std::vector<std::string> printable = printablePhases(options.unroll_visits);
    auto last = std::find(printable.begin(), printable.end(), emit == Emit::smelt ? until : printable.back());
    return static_cast<size_t>(last - printable.begin()) + 2; // "read" comes before them
  }

  void compileArtifact(Compilation &compilation, Progress &progress) {
    // Finds out now, not after the work, whether the file can be written.
    checkWritable(output);
    compilation.generateCode();
    std::vector<uint8_t> bytes = compilation.serialize();
    writeFile(output, std::as_bytes(std::span(bytes)));
    progress.finish();
    size_t kernel_count = compilation.kernels().size();
    if (json) {
      printResult(summaryJson(kernel_count, bytes.size(), progress));
      return;
    }
    printResult(output + "\n");
    printNote(fmt::format("{} kernels for {}, {}", kernel_count, fmt::join(levelNames(), ", "),
                          runtime::formatBytes(bytes.size())));
  }

  std::vector<std::string> levelNames() const {
    std::vector<std::string> names;
    for (const codegen::cpu::IsaLevel *level : options.levels) {
      names.push_back(level->name);
    }
    return names;
  }

  std::string summaryJson(size_t kernel_count, size_t bytes, const Progress &progress) const {
    nlohmann::ordered_json object;
    object["artifact"] = output;
    object["bytes"] = bytes;
    object["kernels"] = kernel_count;
    object["isas"] = levelNames();
    for (const PhaseTime &time : progress.times()) {
      object["seconds"][time.name] = time.seconds;
    }
    return object.dump(2) + "\n";
  }

  std::string kernelTexts(const Compilation &compilation) const {
    auto form = emit == Emit::llvm ? codegen::cpu::TextForm::llvm : codegen::cpu::TextForm::assembly;
    const char *comment = emit == Emit::llvm ? ";" : "#";
    std::string all;
    std::vector<std::string> names;
    for (const codegen::KernelDesc &kernel : compilation.kernels()) {
      names.push_back(kernel.name);
      if (!kernel_name.empty() && kernel.name != kernel_name) {
        continue;
      }
      for (const codegen::cpu::IsaLevel *level : options.levels) {
        std::string text, error;
        if (!codegen::cpu::printKernel(kernel, *level, form, text, error)) {
          throw std::logic_error(error);
        }
        all += fmt::format("{} kernel {}, role {}, {}\n{}\n", comment, kernel.name, kernel.role, level->name,
                           text);
      }
    }
    if (all.empty()) {
      throw UserError(SMELT_usage,
                      fmt::format("--kernel: '{}' is not one of {}", kernel_name, fmt::join(names, ", ")));
    }
    return all;
  }

  std::string spec_path;
  std::string output;
  Target target = Target::cpu;
  Emit emit = Emit::artifact;
  std::string until;
  std::string kernel_name;
  std::vector<std::string> isa_names;
  CompilationOptions options;
  bool timing = false;
  bool json = false;
};

} // namespace

std::unique_ptr<Command> makeCompileCommand() { return std::make_unique<CompileCommand>(); }

} // namespace smelt::driver
