#include "compiler/Import/SafeTensorsHeader.h"

#include "compiler/Import/SafeTensorsFile.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <set>

namespace smelt::checkpoint {
namespace {

using nlohmann::json;

// Parses JSON, noting keys that appear twice in one object: the library would silently keep one of them.
json parseJson(std::string_view text, std::vector<std::string> &problems) {
  std::vector<std::set<std::string>> open_objects;
  auto note = [&](int, json::parse_event_t event, json &parsed) {
    if (event == json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto &key = parsed.get_ref<const std::string &>();
      if (!open_objects.back().insert(key).second) {
        problems.push_back(fmt::format("'{}' appears twice in the header", key));
      }
    }
    return true;
  };
  // The writers of the format pad the header with blanks.
  return json::parse(text.begin(), text.end(), note, /*allow_exceptions=*/false);
}

// The number of bytes of a tensor, or nothing when it does not fit 64 bits.
std::optional<uint64_t> byteSize(const TensorEntry &entry) {
  uint64_t bytes = elementSize(entry.dtype);
  for (int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

bool isSize(const json &value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t(std::numeric_limits<int64_t>::max());
}

bool isSizes(const json &value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), isSize);
}

// Why `value` is not a tensor's entry, or nothing when it is.
std::string readEntry(const json &value, TensorEntry &entry) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return "needs exactly dtype, shape and data_offsets";
  }
  const json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!dtype.is_string() || !isSizes(shape) || !isSizes(offsets) || offsets.size() != 2) {
    return "needs a text as dtype, sizes as shape and two sizes as data_offsets";
  }
  entry = {dtype, shape, offsets[0], offsets[1]};
  if (elementSize(entry.dtype) == 0) {
    return fmt::format("has the unknown dtype '{}'", entry.dtype);
  }
  std::optional<uint64_t> bytes = byteSize(entry);
  if (entry.begin > entry.end || bytes != entry.end - entry.begin) {
    return fmt::format("has data_offsets [{}, {}], but its shape and dtype take {} bytes", entry.begin,
                       entry.end, bytes ? std::to_string(*bytes) : "more than 2^64");
  }
  return {};
}

void checkCoverage(const SafeTensorsHeader &header, uint64_t data_size, std::vector<std::string> &problems) {
  std::vector<std::pair<const std::string *, const TensorEntry *>> in_order;
  for (const auto &[name, entry] : header.tensors) {
    in_order.emplace_back(&name, &entry);
  }
  std::sort(in_order.begin(), in_order.end(), [](const auto &a, const auto &b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t covered = 0;
  for (const auto &[name, entry] : in_order) {
    if (entry->begin != covered) {
      problems.push_back(
          fmt::format("'{}' starts at byte {} of the data, but the tensors before it end at {}", *name,
                      entry->begin, covered));
    }
    covered = entry->end;
  }
  if (covered != data_size) {
    problems.push_back(
        fmt::format("the tensors take {} bytes, but the file has {} bytes of data", covered, data_size));
  }
}

} // namespace

SafeTensorsHeader parseHeader(std::string_view text, uint64_t data_size, std::vector<std::string> &problems) {
  SafeTensorsHeader header;
  json root = parseJson(text, problems);
  if (!root.is_object()) {
    problems.push_back("the header is not a JSON object");
    return header;
  }
  for (const auto &[name, value] : root.items()) {
    if (name == "__metadata__") {
      bool is_text = value.is_object() &&
                     std::all_of(value.begin(), value.end(), [](const json &v) { return v.is_string(); });
      if (is_text) {
        header.metadata = value.get<std::map<std::string, std::string>>();
      } else {
        problems.push_back("'__metadata__' needs texts by name");
      }
      continue;
    }
    std::string problem = readEntry(value, header.tensors[name]);
    if (!problem.empty()) {
      problems.push_back(fmt::format("'{}' {}", name, problem));
    }
  }
  if (problems.empty()) {
    checkCoverage(header, data_size, problems);
  }
  return header;
}

} // namespace smelt::checkpoint
