// Plain text tables and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::report {

// Columns as wide as their widest cell, two spaces apart; the first ones, names, are set left and the others,
// numbers, right.
class Table {
public:
  explicit Table(size_t left_columns = 1) : left(left_columns) {}
  void addRow(std::vector<std::string> cells);
  std::string text() const;
  // As a Markdown table whose first row is the header.
  std::string markdown() const;
  // As an HTML table whose first row and column are headers.
  std::string html() const;

private:
  size_t left;
  std::vector<std::vector<std::string>> rows;
};

// Text as it must stand in HTML.
std::string escapeHtml(std::string_view text);

// "3,912,345,600"
std::string groupDigits(int64_t value);
// "3.91 B": thousands as K, M, B, T; three significant digits.
std::string shortCount(int64_t value);
// "3-8", or "3" for one layer; "" for none.
std::string layerRange(int64_t first, int64_t count);

} // namespace smelt::report
