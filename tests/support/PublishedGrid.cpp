#include "tests/support/PublishedGrid.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

namespace smelt::tests {
namespace {

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

std::vector<PublishedCell> readPublishedGrid(const std::string &path) {
  std::vector<PublishedCell> cells;
  std::vector<std::string> header;
  std::ifstream file(path);
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
  return cells;
}

} // namespace smelt::tests
