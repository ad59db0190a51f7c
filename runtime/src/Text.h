// Pieces of messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::runtime {

// "512 B", "1.50 GiB".
std::string formatBytes(uint64_t bytes);
// "[32, 64]"
std::string formatShape(std::span<const uint64_t> shape);
// A name that came from a file: control characters escaped, cut to 120 characters.
std::string printable(std::string_view text);
// What errno says, e.g. "No space left on device".
std::string errnoText(int error);
// `pattern` with "{layer}" and "{expert}" replaced.
std::string expandName(std::string_view pattern, uint64_t layer, uint64_t expert);
// The same into `out`, whose memory is used again.
void expandName(std::string_view pattern, uint64_t layer, uint64_t expert, std::string &out);

// Collects problems so that all are reported at once; past a limit they are only counted.
class ProblemList {
public:
  explicit ProblemList(size_t limit = 20) : limit(limit) {}
  // False once `limit` is reached: the caller may skip building the text and call count() instead.
  bool wants() const { return lines.size() < limit; }
  void add(std::string line);
  void count() { ++total; }
  bool empty() const { return total == 0; }
  uint64_t size() const { return total; }
  // "\n  first\n  second\n  and 3 more"
  std::string text() const;

private:
  size_t limit;
  uint64_t total = 0;
  std::vector<std::string> lines;
};

} // namespace smelt::runtime
