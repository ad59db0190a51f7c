// smeltc law fit: a law from training runs.
#pragma once

#include "compiler/Law/Fit.h"
#include "smelt/status.h"

#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace smelt::driver {

class LawFit {
public:
  void declare(CLI::App &app);
  smelt_status run();

private:
  std::vector<law::Run> loadRuns() const;
  law::Fit fitRuns(const std::vector<law::Run> &runs) const;
  void setFixed();

  std::string runs_path;
  std::string output;
  std::string plot;
  std::string name;
  std::vector<std::string> fixed; // NAME=VALUE
  law::FitOptions options;
  bool json = false;
};

} // namespace smelt::driver
