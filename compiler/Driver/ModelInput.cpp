#include "compiler/Driver/ModelInput.h"

#include "compiler/Driver/SpecInput.h"
#include "compiler/Driver/UserError.h"
#include "compiler/Import/HuggingFaceBaseline.h"

#include <fmt/format.h>

namespace smelt::driver {

bool isConfig(const std::string &path) { return path.ends_with(".json"); }

hf::Model loadConfig(const std::string &path) {
  hf::ModelResult result = hf::readConfigFile(path);
  if (result) {
    return std::move(*result.model);
  }
  const std::string problems = result.diagnostics.text();
  if (result.status != SMELT_spec) {
    throw UserError(result.status, problems);
  }
  const size_t count = result.diagnostics.size();
  throw UserError(SMELT_spec,
                  fmt::format("'{}' has {} problem{}:\n{}", path, count, count == 1 ? "" : "s", problems));
}

spec::ModelSpec convertConfig(const hf::Model &model, const std::string &path) {
  hf::SpecConversion conversion = hf::toSpec(model);
  if (conversion.spec) {
    return std::move(*conversion.spec);
  }
  std::string message =
      fmt::format("'{}': a spec cannot say everything about this {} model:\n", path, model.model_type);
  for (const std::string &what : conversion.inexpressible) {
    message += "  " + what + "\n";
  }
  throw UserError(SMELT_unsupported, message + "its budgets are exact all the same: smeltc budget " + path);
}

BaselineInput loadBaseline(const std::string &path) {
  if (!isConfig(path)) {
    return {.baseline = loadSpec(path)};
  }
  hf::Model model = loadConfig(path);
  planner::Baseline baseline = hf::toBaseline(model);
  return {.baseline = std::move(baseline), .config = std::move(model)};
}

report::CountedModel loadCounted(const std::string &path, const budget::Context &context) {
  report::CountedModel counted;
  if (isConfig(path)) {
    hf::Model model = loadConfig(path);
    counted.architecture = std::move(model.architecture);
    counted.model_type = std::move(model.model_type);
    counted.dtype = std::move(model.dtype);
    counted.bytes_per_weight = model.bytes_per_weight;
    counted.notes = std::move(model.notes);
  } else {
    counted.architecture = budget::architectureOf(loadSpec(path));
  }
  budget::AccountResult result = budget::accountFor(counted.architecture, context);
  if (!result) {
    throw UserError(SMELT_spec, path + ": " + result.error);
  }
  counted.account = std::move(*result.account);
  return counted;
}

} // namespace smelt::driver
