// smeltc weights: random weights for a spec, and quantised ones.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Progress.h"
#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Weights/InitWeights.h"
#include "compiler/Weights/QuantizeWeights.h"
#include "runtime/src/Text.h"
#include "runtime/tools/smelt-run/StopSignal.h"

namespace smelt::driver {

namespace {

using runtime::formatBytes;

class WeightsCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.require_subcommand(1);
    declareInit(app);
    declareQuantize(app);
  }

  smelt_status run() override { return quantize->parsed() ? runQuantize() : runInit(); }

private:
  void declareInit(CLI::App &app) {
    CLI::App *init = app.add_subcommand("init", "Write reproducible random weights for a spec");
    init->add_option("SPEC", spec_path, "The model, a TOML file")->type_name("FILE")->required();
    init->add_option("-o,--output", options.path, "FILE.safetensors to write")->type_name("FILE")->required();
    init->add_option("--seed", options.seed, "The same seed gives the same values on every machine")
        ->check(wholeNumber(0, UINT64_MAX))
        ->type_name("N")
        ->required();
    init->add_option("--dtype", options.dtype, "Type of every tensor (default bf16)")
        ->transform(choice<weights::WeightDType>(
            {{"f32", weights::WeightDType::f32}, {"bf16", weights::WeightDType::bf16}}))
        ->type_name("f32|bf16");
    init->add_option("--shard-size", options.shard_bytes,
                     "Split into FILE-00001-of-0000N.safetensors of at most this size, e.g. 5GB, and write "
                     "FILE.safetensors.index.json")
        ->transform(byteSize())
        ->type_name("SIZE");
    init->add_option("--threads", options.threads, "Worker threads (default: one per processor)")
        ->check(wholeNumber(1, 1024))
        ->type_name("N");
  }

  void declareQuantize(CLI::App &app) {
    quantize =
        app.add_subcommand("quantize", "Make 8-bit weights, for models compiled with --weights-dtype i8");
    quantize->add_option("IN", quantizing.inputs, "safetensors files, an index of shards, or a folder")
        ->type_name("FILE")
        ->required();
    quantize->add_option("-o,--output", quantizing.output, "FILE.safetensors to write")
        ->type_name("FILE")
        ->required();
    quantize
        ->add_option("--shard-size", quantizing.shard_bytes,
                     "Split into FILE-00001-of-0000N.safetensors of at most this size, e.g. 5GB, and write "
                     "FILE.safetensors.index.json")
        ->transform(byteSize())
        ->type_name("SIZE");
    quantize->add_option("--threads", quantizing.threads, "Worker threads (default: one per processor)")
        ->check(wholeNumber(1, 1024))
        ->type_name("N");
  }

  smelt_status runInit() {
    spec::ModelSpec spec = loadSpec(spec_path);
    runtime::StopSignal stop;
    Progress progress(1);
    progress.begin("writing weights");
    options.cancelled = runtime::StopSignal::requested;
    options.progress = [&](uint64_t done, uint64_t total) {
      progress.update(
          fmt::format("{} of {} ({} %)", formatBytes(done), formatBytes(total), 100 * done / total));
    };
    runtime::Result<weights::InitResult> result = weights::initWeights(spec, options);
    if (!result.ok()) {
      throw UserError(result.status().code, result.status().message);
    }
    progress.finish();
    for (const std::string &file : result->files) {
      printResult(file + "\n");
    }
    printNote(fmt::format("{} parameters in {} tensors, {}", result->parameters, result->tensors,
                          formatBytes(result->bytes)));
    return SMELT_ok;
  }

  smelt_status runQuantize() {
    runtime::StopSignal stop;
    Progress progress(1);
    progress.begin("quantising weights");
    quantizing.cancelled = runtime::StopSignal::requested;
    quantizing.progress = [&](uint64_t done, uint64_t total) {
      progress.update(fmt::format("{} of {} weights ({} %)", done, total, 100 * done / total));
    };
    runtime::Result<weights::QuantizeResult> result = weights::quantizeWeights(quantizing);
    if (!result.ok()) {
      throw UserError(result.status().code, result.status().message);
    }
    progress.finish();
    for (const std::string &file : result->files) {
      printResult(file + "\n");
    }
    printResult(quantizeTable(*result));
    printNote(fmt::format("{} tensors quantised, {} kept in bf16{}; {} became {}", result->tensors,
                          result->kept, result->rounded ? " (rounded)" : "", formatBytes(result->input_bytes),
                          formatBytes(result->output_bytes)));
    return SMELT_ok;
  }

  // What quantising did, a line for each kind of tensor.
  static std::string quantizeTable(const weights::QuantizeResult &result) {
    std::string text = fmt::format("{:<12} {:>14} {:>14} {:>14} {:>12}\n", "tensors", "weights",
                                   "moved at most", "bound", "relative L2");
    auto line = [&](const char *name, const weights::QuantError &error) {
      text += fmt::format("{:<12} {:>14} {:>14.3e} {:>14.3e} {:>12.3e}\n", name, error.count, error.largest,
                          error.half_step, error.relativeL2());
    };
    for (const auto &[role, error] : result.errors) {
      line(spec::weightRoleName(role), error);
    }
    line("all", result.total);
    return text;
  }

  std::string spec_path;
  weights::InitOptions options;
  CLI::App *quantize = nullptr;
  weights::QuantizeOptions quantizing;
};

} // namespace

std::unique_ptr<Command> makeWeightsCommand() { return std::make_unique<WeightsCommand>(); }

} // namespace smelt::driver
