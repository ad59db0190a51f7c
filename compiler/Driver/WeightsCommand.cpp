// smeltc weights init: random weights for a spec.
#include "compiler/Driver/Commands.h"

#include "compiler/Driver/Console.h"
#include "compiler/Driver/Options.h"
#include "compiler/Driver/Progress.h"
#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Weights/InitWeights.h"
#include "runtime/src/Text.h"
#include "runtime/tools/smelt-run/StopSignal.h"

namespace smelt::driver {

namespace {

using runtime::formatBytes;

class WeightsCommand : public Command {
public:
  void declare(CLI::App &app) override {
    app.require_subcommand(1);
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

  smelt_status run() override {
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

private:
  std::string spec_path;
  weights::InitOptions options;
};

} // namespace

std::unique_ptr<Command> makeWeightsCommand() { return std::make_unique<WeightsCommand>(); }

} // namespace smelt::driver
