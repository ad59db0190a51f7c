#include "runtime/src/SafeTensors.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_set>

namespace smelt::runtime {
namespace {

// The limit of the reference implementation.
constexpr uint64_t maxHeaderSize = 100'000'000;
constexpr size_t maxRank = 16;

// Builds the entries while the JSON is read, so that a header of 100,000 tensors is never held as a tree,
// deep nesting stops at once, and doubled names are seen. nlohmann's SAX interface: false stops.
class HeaderReader {
public:
  HeaderReader(SafeTensorsHeader &header, ProblemList &problems) : header(header), problems(problems) {}

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(int64_t value) { return unexpected(std::to_string(value)); }
  bool number_float(double, const std::string &text) { return unexpected(text); }
  bool binary(std::vector<uint8_t> &) { return unexpected("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (where != Where::shape && where != Where::offsets) {
      return unexpected(std::to_string(value));
    }
    std::vector<uint64_t> &list = where == Where::shape ? entry.shape : offsets;
    if (list.size() == maxRank) {
      return stop(
          fmt::format("tensor '{}' has a list of more than {} numbers", printable(entry.name), maxRank));
    }
    list.push_back(value);
    return true;
  }

  bool string(std::string &text) {
    if (where == Where::metadata) {
      header.metadata[field] = text;
      return true;
    }
    if (where == Where::tensor && field == "dtype") {
      entry.dtype = text;
      return true;
    }
    return unexpected("a string");
  }

  bool start_object(size_t) {
    if (where == Where::start) {
      where = Where::top;
      return true;
    }
    if (where != Where::top) {
      return unexpected("an object");
    }
    if (field == "__metadata__") {
      where = Where::metadata;
      return true;
    }
    where = Where::tensor;
    seen = 0;
    offsets.clear();
    entry = {};
    entry.name = field;
    return true;
  }

  bool key(std::string &name) {
    field = name;
    if (where == Where::top) {
      if (!names.insert(name).second) {
        problems.add(fmt::format("'{}' is there twice", printable(name)));
      }
      return true;
    }
    if (where == Where::tensor) {
      int bit = name == "dtype" ? 1 : name == "shape" ? 2 : name == "data_offsets" ? 4 : 0;
      if (bit == 0 || (seen & bit)) {
        return stop(fmt::format("tensor '{}' has {} field '{}'", printable(entry.name),
                                bit ? "a second" : "an unknown", printable(name)));
      }
      seen |= bit;
    }
    return true;
  }

  bool end_object() {
    if (where == Where::tensor) {
      if (seen != 7 || offsets.size() != 2) {
        return stop(
            fmt::format("tensor '{}' needs dtype, shape and two data_offsets", printable(entry.name)));
      }
      entry.begin = offsets[0];
      entry.end = offsets[1];
      header.tensors.push_back(std::move(entry));
    }
    where = where == Where::top ? Where::end : Where::top;
    return true;
  }

  bool start_array(size_t) {
    if (where == Where::tensor && (field == "shape" || field == "data_offsets")) {
      where = field == "shape" ? Where::shape : Where::offsets;
      return true;
    }
    return unexpected("a list");
  }

  bool end_array() {
    where = Where::tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) {
    return stop(fmt::format("the header is not valid JSON at byte {}", position + 8));
  }

private:
  enum class Where { start, top, tensor, metadata, shape, offsets, end };

  bool stop(std::string what) {
    problems.add(std::move(what));
    return false;
  }
  bool unexpected(const std::string &what) {
    return stop(where == Where::start ? "the header is not a JSON object"
                                      : fmt::format("unexpected {} at '{}{}{}'", printable(what),
                                                    where == Where::top ? "" : printable(entry.name),
                                                    where == Where::top ? "" : ".", printable(field)));
  }

  SafeTensorsHeader &header;
  ProblemList &problems;
  Where where = Where::start;
  std::string field;
  TensorEntry entry;
  std::vector<uint64_t> offsets;
  std::unordered_set<std::string> names;
  int seen = 0;
};

// Checks offsets, which are still relative to the data, against the data's size and the tensor's own size.
void checkEntry(const TensorEntry &entry, uint64_t dataSize, ProblemList &problems) {
  std::string name = printable(entry.name);
  if (entry.begin > entry.end || entry.end > dataSize) {
    return problems.add(fmt::format("tensor '{}' is at bytes [{}, {}) of {} bytes of data", name, entry.begin,
                                    entry.end, dataSize));
  }
  uint64_t bytes = safeTensorsElementSize(entry.dtype);
  if (bytes == 0) {
    return problems.add(fmt::format("tensor '{}' has the unknown dtype '{}'", name, printable(entry.dtype)));
  }
  for (uint64_t dim : entry.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return problems.add(
          fmt::format("tensor '{}' has the shape {}, too large", name, formatShape(entry.shape)));
    }
  }
  if (bytes != entry.end - entry.begin) {
    problems.add(fmt::format("tensor '{}' of {} {} needs {} bytes, has {}", name, entry.dtype,
                             formatShape(entry.shape), bytes, entry.end - entry.begin));
  }
}

void checkCoverage(const SafeTensorsHeader &header, uint64_t dataSize, ProblemList &problems) {
  std::vector<const TensorEntry *> order;
  for (const TensorEntry &entry : header.tensors) {
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const TensorEntry *a, const TensorEntry *b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t end = 0;
  for (const TensorEntry *entry : order) {
    if (entry->begin != end) {
      problems.add(fmt::format("tensor '{}' starts at byte {} of the data, the one before it ends at {}: {}",
                               printable(entry->name), entry->begin, end,
                               entry->begin < end ? "they overlap" : "there is a hole"));
    }
    end = std::max(end, entry->end);
  }
  if (end != dataSize) {
    problems.add(fmt::format("the tensors end at byte {} of {} bytes of data", end, dataSize));
  }
}

} // namespace

uint64_t safeTensorsElementSize(const std::string &dtype) {
  static constexpr struct {
    const char *name;
    uint64_t size;
  } sizes[] = {{"F32", 4}, {"BF16", 2}, {"F16", 2},  {"F64", 8},     {"I64", 8},
               {"I32", 4}, {"I16", 2},  {"I8", 1},   {"U8", 1},      {"U16", 2},
               {"U32", 4}, {"U64", 8},  {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};
  for (const auto &entry : sizes) {
    if (dtype == entry.name) {
      return entry.size;
    }
  }
  return 0;
}

Result<SafeTensorsHeader> parseSafeTensors(const std::string &name, std::span<const std::byte> bytes) {
  auto refuse = [&](const std::string &what) {
    return fail(SMELT_weights, fmt::format("{}: is not a usable safetensors file: {}", name, what));
  };
  uint64_t length = 0;
  if (bytes.size() < sizeof length) {
    return refuse(fmt::format("it has {} bytes", bytes.size()));
  }
  std::memcpy(&length, bytes.data(), sizeof length);
  uint64_t rest = bytes.size() - sizeof length;
  if (length > maxHeaderSize || length > rest) {
    return refuse(fmt::format("the header is said to have {} bytes, {} follow and {} are allowed", length,
                              rest, maxHeaderSize));
  }
  SafeTensorsHeader header;
  ProblemList problems;
  header.dataStart = sizeof length + length;
  const char *json = reinterpret_cast<const char *>(bytes.data()) + sizeof length;
  HeaderReader reader(header, problems);
  bool parsed = nlohmann::json::sax_parse(json, json + length, &reader);
  if (parsed && problems.empty()) {
    for (const TensorEntry &entry : header.tensors) {
      checkEntry(entry, rest - length, problems);
    }
  }
  if (parsed && problems.empty()) {
    checkCoverage(header, rest - length, problems);
  }
  if (!parsed || !problems.empty()) {
    return refuse(
        fmt::format("{} problem{}{}", problems.size(), problems.size() == 1 ? "" : "s", problems.text()));
  }
  for (TensorEntry &entry : header.tensors) {
    entry.begin += header.dataStart;
    entry.end += header.dataStart;
  }
  return header;
}

} // namespace smelt::runtime
