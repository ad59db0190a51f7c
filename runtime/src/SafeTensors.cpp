#include "runtime/src/SafeTensors.h"

#include "runtime/src/JsonReader.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace smelt::runtime {
namespace {

// The limit of the reference implementation.
constexpr uint64_t maxHeaderSize = 100'000'000;
constexpr size_t maxRank = 16;

// Builds the entries while the JSON is read, so that a header of 100,000 tensors is never held as a tree, and
// names that are there twice are seen. The first thing that is no JSON, or no header, ends it.
class HeaderReader {
public:
  HeaderReader(std::string_view json, SafeTensorsHeader &header, ProblemList &problems)
      : json(json, header.decoded), length(json.size()), header(header), problems(problems) {}

  // Whether all of it could be read; doubled names are problems, but no reason to stop.
  bool read() {
    bool whole = readTop();
    if (json.failed()) {
      problems.add(fmt::format("the header is not valid JSON at byte {}", json.position() + 8));
    }
    return whole;
  }

private:
  using Kind = JsonReader::Kind;

  bool readTop() {
    Kind kind = json.next();
    if (kind != Kind::object) {
      return kind != Kind::invalid && stop("the header is not a JSON object");
    }
    json.enter();
    reserve();
    for (bool first = true; json.more('}', first);) {
      std::string_view name;
      if (!json.key(name) || !(name == "__metadata__" ? readMetadata() : readTensor(name))) {
        return false;
      }
    }
    placeShapes();
    return json.finish();
  }

  // A tensor takes 100 bytes of text or more.
  void reserve() {
    size_t tensors = length / 100;
    header.tensors.reserve(tensors);
    header.names.reserve(tensors);
    header.dims.reserve(2 * tensors);
    ranks.reserve(tensors);
  }

  bool readMetadata() {
    if (hasMetadata) {
      problems.add("'__metadata__' is there twice");
    }
    hasMetadata = true;
    if (json.next() != Kind::object) {
      return unexpected("__metadata__");
    }
    json.enter();
    for (bool first = true; json.more('}', first);) {
      std::string_view name, value;
      if (!json.key(name)) {
        return false;
      }
      if (json.next() != Kind::string) {
        return unexpected(fmt::format("__metadata__.{}", name));
      }
      if (!json.string(value)) {
        return false;
      }
      header.metadata[std::string(name)] = value;
    }
    return !json.failed();
  }

  bool readTensor(std::string_view name) {
    if (!header.names.insert(name).second) {
      problems.add(fmt::format("'{}' is there twice", printable(name)));
    }
    if (json.next() != Kind::object) {
      return unexpected(name);
    }
    json.enter();
    TensorEntry entry;
    entry.name = name;
    int seen = 0;
    size_t rank = 0;
    for (bool first = true; json.more('}', first);) {
      std::string_view field;
      if (!json.key(field)) {
        return false;
      }
      int bit = field == "dtype" ? 1 : field == "shape" ? 2 : field == "data_offsets" ? 4 : 0;
      if (bit == 0 || (seen & bit)) {
        return stop(fmt::format("tensor '{}' has {} field '{}'", printable(name),
                                bit ? "a second" : "an unknown", printable(field)));
      }
      seen |= bit;
      if (!(bit == 1 ? readType(entry) : bit == 2 ? readShape(name, rank) : readOffsets(entry))) {
        return false;
      }
    }
    if (json.failed()) {
      return false;
    }
    if (seen != 7) {
      return stop(fmt::format("tensor '{}' needs dtype, shape and two data_offsets", printable(name)));
    }
    ranks.push_back(uint8_t(rank));
    header.tensors.push_back(entry);
    return true;
  }

  bool readType(TensorEntry &entry) {
    return json.next() == Kind::string ? json.string(entry.dtype)
                                       : unexpected(fmt::format("{}.dtype", entry.name));
  }

  bool readShape(std::string_view name, size_t &rank) {
    uint64_t dim;
    if (json.next() != Kind::list) {
      return unexpected(fmt::format("{}.shape", name));
    }
    json.enter();
    for (bool first = true; json.more(']', first); ++rank) {
      if (!readNumber(name, "shape", dim)) {
        return false;
      }
      if (rank == maxRank) {
        return stop(fmt::format("tensor '{}' has a shape of more than {} numbers", printable(name), maxRank));
      }
      header.dims.push_back(dim);
    }
    return !json.failed();
  }

  bool readOffsets(TensorEntry &entry) {
    uint64_t offsets[2];
    size_t count = 0;
    if (json.next() != Kind::list) {
      return unexpected(fmt::format("{}.data_offsets", entry.name));
    }
    json.enter();
    for (bool first = true; json.more(']', first); ++count) {
      uint64_t value;
      if (!readNumber(entry.name, "data_offsets", value)) {
        return false;
      }
      if (count < std::size(offsets)) {
        offsets[count] = value;
      }
    }
    if (json.failed()) {
      return false;
    }
    if (count != std::size(offsets)) {
      return stop(fmt::format("tensor '{}' needs dtype, shape and two data_offsets", printable(entry.name)));
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    return true;
  }

  // A whole number of 64 bits.
  bool readNumber(std::string_view name, const char *field, uint64_t &value) {
    return json.whole(value) || unexpected(fmt::format("{}.{}", name, field));
  }

  // What comes next is JSON perhaps, but nothing that belongs here.
  bool unexpected(std::string_view where) {
    std::string_view text;
    switch (json.next()) {
    case Kind::object:
      return unexpected(where, "an object");
    case Kind::list:
      return unexpected(where, "a list");
    case Kind::string:
      return unexpected(where, "a string");
    case Kind::number:
      return json.number(text) && unexpected(where, text);
    case Kind::boolean:
    case Kind::null:
      return json.literal(text) && unexpected(where, text);
    case Kind::invalid:
      break;
    }
    return false;
  }
  bool unexpected(std::string_view where, std::string_view what) {
    return stop(fmt::format("unexpected {} at '{}'", printable(what), printable(where)));
  }
  bool stop(std::string what) {
    problems.add(std::move(what));
    return false;
  }

  // Now that the list of dims does not grow any more.
  void placeShapes() {
    size_t next = 0;
    for (size_t i = 0; i < header.tensors.size(); ++i) {
      header.tensors[i].shape = std::span(header.dims).subspan(next, ranks[i]);
      next += ranks[i];
    }
  }

  JsonReader json;
  size_t length;
  SafeTensorsHeader &header;
  ProblemList &problems;
  std::vector<uint8_t> ranks; // by tensor
  bool hasMetadata = false;
};

// Checks offsets, which are still relative to the data, against the data's size and the tensor's own size.
void checkEntry(const TensorEntry &entry, uint64_t dataSize, ProblemList &problems) {
  auto name = [&] { return printable(entry.name); };
  if (entry.begin > entry.end || entry.end > dataSize) {
    return problems.add(fmt::format("tensor '{}' is at bytes [{}, {}) of {} bytes of data", name(),
                                    entry.begin, entry.end, dataSize));
  }
  uint64_t bytes = safeTensorsElementSize(entry.dtype);
  if (bytes == 0) {
    return problems.add(
        fmt::format("tensor '{}' has the unknown dtype '{}'", name(), printable(entry.dtype)));
  }
  for (uint64_t dim : entry.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return problems.add(
          fmt::format("tensor '{}' has the shape {}, too large", name(), formatShape(entry.shape)));
    }
  }
  if (bytes != entry.end - entry.begin) {
    problems.add(fmt::format("tensor '{}' of {} {} needs {} bytes, has {}", name(), entry.dtype,
                             formatShape(entry.shape), bytes, entry.end - entry.begin));
  }
}

void checkCoverage(const SafeTensorsHeader &header, uint64_t dataSize, ProblemList &problems) {
  using Place = std::tuple<uint64_t, uint64_t, uint32_t>; // begin, end, index
  std::vector<Place> order;
  order.reserve(header.tensors.size());
  for (const TensorEntry &entry : header.tensors) {
    order.emplace_back(entry.begin, entry.end, uint32_t(order.size()));
  }
  std::sort(order.begin(), order.end());
  uint64_t end = 0;
  for (const auto &[begin, entryEnd, index] : order) {
    if (begin != end) {
      problems.add(fmt::format("tensor '{}' starts at byte {} of the data, the one before it ends at {}: {}",
                               printable(header.tensors[index].name), begin, end,
                               begin < end ? "they overlap" : "there is a hole"));
    }
    end = std::max(end, entryEnd);
  }
  if (end != dataSize) {
    problems.add(fmt::format("the tensors end at byte {} of {} bytes of data", end, dataSize));
  }
}

} // namespace

uint64_t safeTensorsElementSize(std::string_view dtype) {
  static constexpr struct {
    std::string_view name;
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
  bool parsed = HeaderReader({json, length}, header, problems).read();
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
