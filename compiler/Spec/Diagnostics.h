// Located problems of one text file, collected so that a user sees all of them in one go.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace smelt::spec {

// A place in a file; both count from 1, columns in characters. Line 0: the file as a whole.
struct Location {
  int64_t line = 0;
  int64_t column = 0;
  auto operator<=>(const Location &) const = default;
};

struct Diagnostic {
  Location location;
  std::string message;
  auto operator<=>(const Diagnostic &) const = default;
};

class Diagnostics {
public:
  explicit Diagnostics(std::string file = "") : file_name(std::move(file)) {}

  void add(Location location, std::string message);

  bool empty() const { return entries.empty(); }
  size_t size() const { return entries.size(); }
  const std::string &file() const { return file_name; }
  // In file order, each problem once.
  std::vector<Diagnostic> sorted() const;
  // One line per problem, in file order: "file:line:column: message\n".
  std::string text() const;

private:
  std::string file_name;
  std::vector<Diagnostic> entries;
};

} // namespace smelt::spec
