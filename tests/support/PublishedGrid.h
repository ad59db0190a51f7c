// The published SMELT grid, tests/data/smelt_grid.csv, and the specs of its cells.
#pragma once

#include "compiler/Spec/ModelSpec.h"

#include <map>
#include <string>
#include <vector>

namespace smelt::tests {

struct PublishedCell {
  std::map<std::string, std::string> columns;

  // Name of the cell's spec in specs/smelt.
  std::string name() const { return nameOf(columns.at("arch")); }
  std::string baselineName() const { return nameOf("baseline"); }
  double number(const std::string &column) const { return std::stod(columns.at(column)); }

private:
  std::string nameOf(const std::string &arch) const;
};

// The rows of the file in order. This and what follows throw std::runtime_error when a file of the source
// tree cannot be read.
std::vector<PublishedCell> publishedGrid();

// specs/smelt/NAME.toml.
spec::ModelSpec publishedSpec(const std::string &name);

// The 12 sparse pairs: an unlooped model and the looped one published with its budgets.
struct PublishedPair {
  PublishedCell cell; // of the looped model
  spec::ModelSpec baseline;
  spec::ModelSpec looped;
};
std::vector<PublishedPair> publishedPairs();

} // namespace smelt::tests
