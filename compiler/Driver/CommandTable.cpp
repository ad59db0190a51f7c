#include "compiler/Driver/Commands.h"

#include <array>

namespace smelt::driver {

std::span<const CommandInfo> commandTable() {
  static constexpr std::array commands = {
      CommandInfo{"budget", "Count parameters, FLOPs and KV cache of a model", makeBudgetCommand},
      CommandInfo{"diff", "Show the budgets of two models side by side", makeDiffCommand},
      CommandInfo{"import", "Turn a Hugging Face config into a spec", makeImportCommand},
      CommandInfo{"plan", "Derive a looped model with the budgets of a baseline", makePlanCommand},
      CommandInfo{"latency", "Predict how long a model takes on a named device", makeLatencyCommand},
      CommandInfo{"law", "Ask scaling laws about loss and compute, or fit one", makeLawCommand},
      CommandInfo{"weights", "Write random weights for a spec", makeWeightsCommand},
      CommandInfo{"compile", "Compile a spec to an artifact", makeCompileCommand},
      CommandInfo{"run", "Run a compiled model on given tokens", makeRunCommand},
      CommandInfo{"inspect", "Show what is in a spec, an artifact or a weights file", makeInspectCommand},
      CommandInfo{"doctor", "Show what this machine has, and what is missing for what", makeDoctorCommand},
  };
  return commands;
}

} // namespace smelt::driver
