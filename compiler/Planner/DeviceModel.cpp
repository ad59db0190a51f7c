#include "compiler/Planner/DeviceModel.h"

#include "compiler/Spec/Suggest.h"
#include "compiler/Spec/TableReader.h"
#include "compiler/Spec/TomlScan.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>

namespace smelt::planner {
namespace {

using spec::Presence;

struct Figure {
  const char *key;
  double DeviceModel::*member;
  Presence presence;
};

constexpr Figure kFigures[] = {
    {"bf16_flops", &DeviceModel::bf16_flops, Presence::required},
    {"f32_flops", &DeviceModel::f32_flops, Presence::required},
    {"fp8_flops", &DeviceModel::fp8_flops, Presence::optional},
    {"memory_bandwidth", &DeviceModel::memory_bandwidth, Presence::required},
    {"memory_bytes", &DeviceModel::memory_bytes, Presence::required},
    {"cache_bandwidth", &DeviceModel::cache_bandwidth, Presence::required},
    {"cache_bytes", &DeviceModel::cache_bytes, Presence::required},
    {"launch_seconds", &DeviceModel::launch_seconds, Presence::required},
    {"achievable_bandwidth", &DeviceModel::achievable_bandwidth, Presence::required},
    {"achievable_compute", &DeviceModel::achievable_compute, Presence::required},
};

// Beyond these no prediction would fit in 64 bits of picoseconds.
constexpr double kSmallest = 1.0;
constexpr double kLargest = 1e21;
constexpr double kLongestLaunch = 1.0;

class DeviceReader {
public:
  DeviceReader(const spec::TomlTable &document, spec::Diagnostics &diagnostics)
      : diagnostics(diagnostics), table(document, "the device", "", index, diagnostics) {}

  DeviceModel read() {
    table.read("name", device.name, Presence::required);
    std::vector<const Figure *> given;
    for (const Figure &figure : kFigures) {
      if (table.read(figure.key, device.*figure.member, figure.presence)) {
        given.push_back(&figure);
      }
    }
    table.finish({});
    for (const Figure *figure : given) {
      checkRange(*figure);
    }
    if (!index.isBad("cache_bandwidth") && !index.isBad("memory_bandwidth") &&
        device.cache_bandwidth < device.memory_bandwidth) {
      diagnostics.add(index.locate("cache_bandwidth"),
                      fmt::format("cache_bandwidth is {:g}, less than memory_bandwidth {:g}: a cache is the "
                                  "faster of the two",
                                  device.cache_bandwidth, device.memory_bandwidth));
    }
    return std::move(device);
  }

private:
  void checkRange(const Figure &figure) {
    const double value = device.*figure.member;
    const std::string_view key = figure.key;
    if (key.starts_with("achievable_")) {
      check(figure, value > 0 && value <= 1, "more than 0 and at most 1");
    } else if (key == "launch_seconds") {
      check(figure, value >= 0 && value <= kLongestLaunch, "from 0 to 1");
    } else {
      check(figure, value >= kSmallest && value <= kLargest, "from 1 to 1e21");
    }
  }

  void check(const Figure &figure, bool good, const char *range) {
    if (!good) {
      index.bad.insert(figure.key);
      diagnostics.add(index.locate(figure.key),
                      fmt::format("{} must be {}, not {:g}", figure.key, range, device.*figure.member));
    }
  }

  spec::Diagnostics &diagnostics;
  spec::FieldIndex index;
  spec::TableReader table;
  DeviceModel device;
};

// The text of a file, at most one byte more than TOML may have, or errno.
int readText(const std::string &path, std::string &text) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) {
    return errno;
  }
  text.resize(spec::kMaxTomlBytes + 1);
  errno = 0;
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return std::ferror(file.get()) ? (errno ? errno : EIO) : 0;
}

std::vector<std::string_view> shippedIds() {
  std::vector<std::string_view> ids;
  for (const ShippedDevice &device : shippedDevices()) {
    ids.push_back(device.id);
  }
  return ids;
}

} // namespace

std::string_view formatName(NumberFormat format) {
  constexpr std::string_view names[] = {"bf16", "f32", "fp8"};
  return names[static_cast<size_t>(format)];
}

int64_t bytesOf(NumberFormat format) {
  constexpr int64_t bytes[] = {2, 4, 1};
  return bytes[static_cast<size_t>(format)];
}

DeviceModel DeviceModel::atPeak() const {
  DeviceModel peak = *this;
  peak.achievable_bandwidth = 1;
  peak.achievable_compute = 1;
  peak.launch_seconds = 0;
  peak.cache_bytes = 0;
  return peak;
}

DeviceResult parseDevice(std::string_view text, std::string file) {
  DeviceResult result;
  result.diagnostics = spec::Diagnostics(std::move(file));
  if (const std::optional<spec::TomlTable> document = spec::parseToml(text, result.diagnostics)) {
    DeviceModel device = DeviceReader(*document, result.diagnostics).read();
    if (result.diagnostics.empty()) {
      result.device = std::move(device);
    }
  }
  result.status = result.device ? SMELT_ok : SMELT_spec;
  return result;
}

DeviceResult readDeviceFile(const std::string &path) {
  std::string text;
  if (const int error = readText(path, text)) {
    DeviceResult result{.device = std::nullopt, .diagnostics = spec::Diagnostics(path), .status = SMELT_io};
    result.diagnostics.add({}, fmt::format("cannot be read: {}", std::strerror(error)));
    return result;
  }
  return parseDevice(text, path);
}

std::optional<DeviceModel> shippedDevice(std::string_view id) {
  for (const ShippedDevice &device : shippedDevices()) {
    if (device.id == id) {
      return parseDevice(device.text, fmt::format("specs/devices/{}.toml", id)).device;
    }
  }
  return std::nullopt;
}

std::string unknownDevice(std::string_view id) {
  const std::vector<std::string_view> ids = shippedIds();
  return fmt::format("there is no device {}{}\nthere are {}; a device of your own is a file ending in .toml",
                     spec::quoted(id), spec::suggestion(id, ids), fmt::join(ids, ", "));
}

} // namespace smelt::planner
