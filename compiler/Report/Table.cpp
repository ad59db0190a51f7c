#include "compiler/Report/Table.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace smelt::report {

namespace {

// Code points, so that "±" counts as one column.
size_t displayWidth(const std::string &text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

} // namespace

void Table::addRow(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const std::vector<std::string> &row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], displayWidth(row[i]));
    }
  }
  std::string text;
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string padding(widths[i] - displayWidth(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (i < left ? row[i] + padding : padding + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string groupDigits(int64_t value) {
  std::string digits = std::to_string(value);
  size_t first = value < 0 ? 1 : 0;
  for (size_t position = digits.size(); position > first + 3;) {
    position -= 3;
    digits.insert(position, ",");
  }
  return digits;
}

std::string shortCount(int64_t value) {
  const char *units[] = {"", " K", " M", " B", " T", " Q"};
  double scaled = static_cast<double>(value);
  size_t unit = 0;
  while (std::abs(scaled) >= 999.5 && unit + 1 < std::size(units)) {
    scaled /= 1000;
    ++unit;
  }
  int decimals = unit == 0 || std::abs(scaled) >= 99.95 ? 0 : std::abs(scaled) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", scaled, decimals, units[unit]);
}

std::string layerRange(int64_t first, int64_t count) {
  if (count == 0) {
    return "";
  }
  return count == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + count - 1);
}

} // namespace smelt::report
