#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace smelt::runtime {

std::string formatBytes(uint64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, units[unit]);
}

std::string formatShape(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string printable(std::string_view text) {
  constexpr size_t limit = 120;
  std::string out;
  for (char c : text.substr(0, limit)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  if (text.size() > limit) {
    out += "...";
  }
  return out;
}

std::string errnoText(int error) {
  char buffer[256];
  return strerror_r(error, buffer, sizeof buffer); // the GNU form returns the text
}

std::string expandName(std::string_view pattern, uint64_t layer, uint64_t expert) {
  std::string out;
  expandName(pattern, layer, expert, out);
  return out;
}

void expandName(std::string_view pattern, uint64_t layer, uint64_t expert, std::string &out) {
  out.clear();
  while (true) {
    size_t plain = std::min(pattern.find('{'), pattern.size());
    out.append(pattern.substr(0, plain));
    pattern.remove_prefix(plain);
    if (pattern.empty()) {
      return;
    }
    bool isLayer = pattern.starts_with("{layer}"), isExpert = pattern.starts_with("{expert}");
    if (isLayer || isExpert) {
      char digits[20];
      auto [end, error] = std::to_chars(digits, std::end(digits), isLayer ? layer : expert);
      out.append(digits, end);
    } else {
      out += '{';
    }
    pattern.remove_prefix(isLayer ? 7 : isExpert ? 8 : 1);
  }
}

void ProblemList::add(std::string line) {
  if (lines.size() < limit) {
    lines.push_back(std::move(line));
  }
  ++total;
}

std::string ProblemList::text() const {
  std::string out;
  for (const std::string &line : lines) {
    out += "\n  " + line;
  }
  if (total > lines.size()) {
    out += fmt::format("\n  and {} more", total - lines.size());
  }
  return out;
}

} // namespace smelt::runtime
