#include "tests/support/PublishedGrid.h"

#include "compiler/Spec/SpecReader.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace smelt::tests {
namespace {

const std::string kRoot = SMELT_SOURCE_DIR;

std::vector<std::string> splitCommas(const std::string &line) {
  std::vector<std::string> parts;
  std::istringstream stream(line);
  for (std::string part; std::getline(stream, part, ',');) {
    parts.push_back(part);
  }
  return parts;
}

} // namespace

std::string PublishedCell::nameOf(const std::string &arch) const {
  std::string scale = columns.at("scale");
  std::transform(scale.begin(), scale.end(), scale.begin(), [](unsigned char c) { return std::tolower(c); });
  return arch + "-" + scale + "-s" + columns.at("sparsity_label");
}

std::vector<PublishedCell> publishedGrid() {
  std::vector<PublishedCell> cells;
  std::vector<std::string> header;
  std::ifstream file(kRoot + "/tests/data/smelt_grid.csv");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const std::vector<std::string> parts = splitCommas(line);
    if (header.empty()) {
      header = parts;
      continue;
    }
    PublishedCell &cell = cells.emplace_back();
    for (size_t i = 0; i < parts.size() && i < header.size(); ++i) {
      cell.columns[header[i]] = parts[i];
    }
  }
  if (cells.empty()) {
    throw std::runtime_error("tests/data/smelt_grid.csv cannot be read");
  }
  return cells;
}

spec::ModelSpec publishedSpec(const std::string &name) {
  spec::SpecResult result = spec::readSpecFile(kRoot + "/specs/smelt/" + name + ".toml");
  if (!result) {
    throw std::runtime_error(result.diagnostics.text());
  }
  return std::move(*result.spec);
}

std::vector<PublishedPair> publishedPairs() {
  std::vector<PublishedPair> pairs;
  for (const PublishedCell &cell : publishedGrid()) {
    if (cell.name() != cell.baselineName()) {
      pairs.push_back({cell, publishedSpec(cell.baselineName()), publishedSpec(cell.name())});
    }
  }
  if (pairs.size() != 12) {
    throw std::runtime_error("tests/data/smelt_grid.csv does not have 12 sparse pairs");
  }
  return pairs;
}

} // namespace smelt::tests
