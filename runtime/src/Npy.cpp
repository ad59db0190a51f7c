#include "runtime/src/Npy.h"

#include "runtime/src/Text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace smelt::runtime {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t maxRank = 3;

struct Descr {
  NpyType type;
  const char *text;
  uint64_t size;
};
constexpr Descr descrs[] = {{NpyType::f32, "<f4", 4}, {NpyType::i32, "<i4", 4}, {NpyType::i64, "<i8", 8}};

// Reads the one Python literal NumPy writes: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class DictReader {
public:
  explicit DictReader(std::string_view text) : text(text) {}

  std::string descr;
  std::optional<bool> fortranOrder;
  std::optional<std::vector<uint64_t>> shape;

  bool read() {
    if (!take('{')) {
      return false;
    }
    while (!take('}')) {
      std::optional<std::string> key = quoted();
      if (!key || !take(':') || !value(*key)) {
        return false;
      }
      if (!take(',')) {
        return take('}') && end();
      }
    }
    return end();
  }

private:
  bool value(const std::string &key) {
    if (key == "descr") {
      std::optional<std::string> found = quoted();
      descr = found.value_or("");
      return found.has_value();
    }
    if (key == "fortran_order") {
      fortranOrder = word("True");
      return *fortranOrder || word("False");
    }
    return key == "shape" && tuple();
  }

  bool tuple() {
    shape.emplace();
    if (!take('(')) {
      return false;
    }
    while (!take(')')) {
      std::optional<uint64_t> dim = number();
      if (!dim) {
        return false;
      }
      shape->push_back(*dim);
      if (!take(',')) {
        return take(')');
      }
    }
    return true;
  }

  void skipSpace() {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) {
      text.remove_prefix(1);
    }
  }
  bool end() {
    skipSpace();
    return text.empty();
  }
  bool take(char c) {
    skipSpace();
    if (text.empty() || text.front() != c) {
      return false;
    }
    text.remove_prefix(1);
    return true;
  }
  bool word(std::string_view expected) {
    skipSpace();
    if (!text.starts_with(expected)) {
      return false;
    }
    text.remove_prefix(expected.size());
    return true;
  }
  std::optional<std::string> quoted() {
    skipSpace();
    if (text.empty() || (text.front() != '\'' && text.front() != '"')) {
      return std::nullopt;
    }
    size_t close = text.find(text.front(), 1);
    if (close == text.npos) {
      return std::nullopt;
    }
    std::string out(text.substr(1, close - 1));
    text.remove_prefix(close + 1);
    return out;
  }
  std::optional<uint64_t> number() {
    skipSpace();
    uint64_t value = 0;
    size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
      if (__builtin_mul_overflow(value, uint64_t(10), &value) ||
          __builtin_add_overflow(value, uint64_t(text[digits] - '0'), &value)) {
        return std::nullopt;
      }
    }
    text.remove_prefix(digits);
    return digits ? std::optional(value) : std::nullopt;
  }

  std::string_view text;
};

} // namespace

Result<NpyArray> parseNpy(const std::string &name, std::span<const std::byte> bytes) {
  auto refuse = [&](const std::string &what) {
    return fail(SMELT_input, fmt::format("{}: is not a usable .npy file: {}", name, what));
  };
  std::string_view text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (!text.starts_with(magic) || text.size() < 12) {
    return refuse("it does not start with NumPy's magic string");
  }
  int major = static_cast<unsigned char>(text[6]);
  if (major < 1 || major > 3) {
    return refuse(fmt::format("format version {}, expected 1 to 3", major));
  }
  size_t start = major == 1 ? 10 : 12;
  uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, major == 1 ? 2 : 4);
  if (length > text.size() - start) {
    return refuse(fmt::format("its header is said to have {} bytes, {} follow", length, text.size() - start));
  }
  DictReader dict(text.substr(start, length));
  if (!dict.read() || dict.descr.empty() || !dict.fortranOrder || !dict.shape) {
    return refuse("its header is not a dictionary of descr, fortran_order and shape");
  }
  const Descr *descr = std::find_if(std::begin(descrs), std::end(descrs),
                                    [&](const Descr &entry) { return dict.descr == entry.text; });
  if (descr == std::end(descrs)) {
    return refuse(fmt::format("its type is '{}', expected '<f4', '<i4' or '<i8'", printable(dict.descr)));
  }
  if (dict.shape->empty() || dict.shape->size() > maxRank) {
    return refuse(fmt::format("it has {} dimensions, expected 1 to {}", dict.shape->size(), maxRank));
  }
  if (*dict.fortranOrder && dict.shape->size() > 1) {
    return refuse("it is in Fortran order; save numpy.ascontiguousarray(...)");
  }
  uint64_t size = descr->size;
  for (uint64_t dim : *dict.shape) {
    if (__builtin_mul_overflow(size, dim, &size)) {
      return refuse(fmt::format("its shape {} is too large", formatShape(*dict.shape)));
    }
  }
  uint64_t dataStart = start + length;
  if (size != bytes.size() - dataStart) {
    return refuse(fmt::format("its shape {} needs {} bytes of data, {} follow", formatShape(*dict.shape),
                              size, bytes.size() - dataStart));
  }
  return NpyArray{descr->type, *dict.shape, bytes.subspan(dataStart)};
}

std::string npyHeader(NpyType type, std::span<const uint64_t> shape) {
  const Descr *descr = std::find_if(std::begin(descrs), std::end(descrs),
                                    [&](const Descr &entry) { return entry.type == type; });
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr->text,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr size_t prefix = 10, alignment = 64;
  size_t total = (prefix + dict.size() + 1 + alignment - 1) / alignment * alignment;
  dict.resize(total - prefix - 1, ' ');
  dict += '\n';
  std::string out(magic);
  out += {'\x01', '\x00', char(dict.size() & 0xff), char(dict.size() >> 8)};
  return out + dict;
}

} // namespace smelt::runtime
