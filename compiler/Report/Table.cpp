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

std::string Table::markdown() const {
  size_t columns = 0;
  for (const std::vector<std::string> &row : rows) {
    columns = std::max(columns, row.size());
  }
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t column = 0; column < columns; ++column) {
      text += "| " + (column < rows[i].size() ? rows[i][column] : "") + " ";
    }
    text += "|\n";
    for (size_t column = 0; i == 0 && column < columns; ++column) {
      text += column < left ? "|---" : "|---:";
    }
    text += i == 0 ? "|\n" : "";
  }
  return text;
}

std::string Table::html() const {
  std::string text = "<table>\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    text += "<tr>";
    for (size_t column = 0; column < rows[i].size(); ++column) {
      const char *tag = i == 0 || column == 0 ? "th" : "td";
      const char *scope = i == 0 ? " scope=\"col\"" : column == 0 ? " scope=\"row\"" : "";
      const char *side = column < left ? " class=\"name\"" : "";
      text += fmt::format("<{}{}{}>{}</{}>", tag, scope, side, escapeHtml(rows[i][column]), tag);
    }
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

std::string escapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    default:
      escaped += c;
    }
  }
  return escaped;
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
