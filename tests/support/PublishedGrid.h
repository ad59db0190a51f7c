// The published SMELT grid, tests/data/smelt_grid.csv.
#pragma once

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

// Empty when the file cannot be read.
std::vector<PublishedCell> readPublishedGrid(const std::string &path);

} // namespace smelt::tests
