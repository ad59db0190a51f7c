// --attended and --context: what attention looks back on, the same in every command that counts FLOPs.
#pragma once

#include "compiler/Budget/Context.h"

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace smelt::driver {

class ContextOptions {
public:
  void declare(CLI::App &app);
  budget::Context context() const;
  // The sequence length of a causal context, or 4096.
  int64_t sequenceLength() const;

private:
  std::string attended;
  std::string words;
};

} // namespace smelt::driver
