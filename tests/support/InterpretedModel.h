// The oracle for tests: a spec evaluated by the dialect's interpreter on the weights of a file.
#pragma once

#include "compiler/Spec/ModelSpec.h"
#include "tests/support/CompileSpec.h"
#include "tests/support/RuntimeModel.h"

#include <memory>
#include <string>
#include <vector>

namespace smelt::tests {

// A routing decision of the interpreter, and by how much the scores decided it.
struct ScoredChoice {
  RoutingChoice choice;
  std::vector<double> logits;
};

struct Interpretation {
  std::vector<double> logits; // [tokens, vocab]
  std::vector<ScoredChoice> routing;
};

class InterpretedModel {
public:
  // The weights file must hold the precision.
  InterpretedModel(const spec::ModelSpec &spec, const std::string &weights_path,
                   const CompileSettings &settings = {});
  ~InterpretedModel();

  // `forced` holds the experts to use for every MoE layer executed and every token, or nothing.
  Interpretation run(const std::vector<int32_t> &tokens, const std::vector<RoutingChoice> &forced = {}) const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace smelt::tests
