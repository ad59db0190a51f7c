// Plain text tables and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::report {

// Columns as wide as their widest cell, two spaces apart; the first is set left, the others right.
class Table {
public:
  void addRow(std::vector<std::string> cells);
  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows;
};

// "3,912,345,600"
std::string groupDigits(int64_t value);
// "3.91 B": thousands as K, M, B, T; three significant digits.
std::string shortCount(int64_t value);

} // namespace smelt::report
