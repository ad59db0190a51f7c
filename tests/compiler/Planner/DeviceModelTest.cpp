#include "compiler/Planner/DeviceModel.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace smelt;
using namespace smelt::planner;

namespace {

constexpr const char *kGood = R"(name = "a device"
bf16_flops = 100e12
f32_flops = 10e12
memory_bandwidth = 1e12
memory_bytes = 16e9
cache_bandwidth = 4e12
cache_bytes = 32e6
launch_seconds = 1e-6
achievable_bandwidth = 0.9
achievable_compute = 0.5
)";

std::string problems(std::string_view text) { return parseDevice(text, "d.toml").diagnostics.text(); }

// kGood with one line in place of the one that sets the same key.
std::string with(std::string_view key, std::string_view line) {
  std::string text = kGood;
  const size_t at = text.find(fmt::format("{} = ", key));
  REQUIRE(at != std::string::npos);
  return text.replace(at, text.find('\n', at) - at, line);
}

} // namespace

TEST_CASE("every shipped device is whole and each name its own") {
  std::vector<std::string> names;
  for (const ShippedDevice &shipped : shippedDevices()) {
    CAPTURE(shipped.id);
    const DeviceResult result = parseDevice(shipped.text, "shipped");
    INFO(result.diagnostics.text());
    REQUIRE(result);
    CHECK(shippedDevice(shipped.id) == result.device);
    names.push_back(result.device->name);
    // Figures of other units (GB for bytes, TFLOPS for FLOPS) would be far outside.
    CHECK(result.device->bf16_flops > 1e11);
    CHECK(result.device->bf16_flops > result.device->f32_flops);
    CHECK(result.device->memory_bandwidth > 1e10);
    CHECK(result.device->memory_bytes > 1e9);
    CHECK(result.device->cache_bytes < result.device->memory_bytes / 100);
    CHECK(result.device->launch_seconds < 1e-5);
    // Every figure says where it comes from.
    size_t lines = 0;
    for (size_t at = shipped.text.find(" = "); at != std::string_view::npos;
         at = shipped.text.find(" = ", at + 1), ++lines) {
      const std::string_view line = shipped.text.substr(at, shipped.text.find('\n', at) - at);
      CHECK((line.starts_with(" = \"") || line.find(" # ") != std::string_view::npos));
    }
    CHECK(lines >= 10);
  }
  std::sort(names.begin(), names.end());
  CHECK(std::unique(names.begin(), names.end()) == names.end());
  for (const char *id : {"a100", "b200", "cpu-avx512", "h100", "h200", "l40s", "rtx4090"}) {
    CHECK(shippedDevice(id));
  }
}

TEST_CASE("an unknown device is refused with the nearest and all there are") {
  CHECK_FALSE(shippedDevice("h300"));
  const std::string text = unknownDevice("h20");
  CHECK(text.find("there is no device \"h20\"; did you mean 'h200'?") == 0);
  CHECK(text.find("a100, b200, cpu-avx512, h100, h200, l40s, rtx4090") != std::string::npos);
  CHECK(unknownDevice("abacus").find("did you mean") == std::string::npos);
}

TEST_CASE("a device of the user's own") {
  const DeviceResult result = parseDevice(kGood, "d.toml");
  REQUIRE(result);
  CHECK(result.device->name == "a device");
  CHECK(result.device->bf16_flops == 100e12);
  CHECK(result.device->fp8_flops == 0);
  CHECK(result.device->achievable_compute == 0.5);
  const DeviceModel peak = result.device->atPeak();
  CHECK(peak.achievable_bandwidth == 1);
  CHECK(peak.achievable_compute == 1);
  CHECK(peak.launch_seconds == 0);
  CHECK(peak.memory_bandwidth == 1e12);
}

TEST_CASE("problems of a device file are located and told all at once") {
  CHECK(problems("") != "");
  const DeviceResult empty = parseDevice("name = \"x\"\n", "d.toml");
  CHECK(empty.status == SMELT_spec);
  CHECK(empty.diagnostics.size() == 9); // every required figure
  CHECK(problems(with("memory_bytes", "memory_bites = 16e9")) ==
        "d.toml:5:1: unknown key 'memory_bites' in the device; did you mean 'memory_bytes'?\n");
  CHECK(problems(with("achievable_compute", "achievable_compute = 1.5")) ==
        "d.toml:10:1: achievable_compute must be more than 0 and at most 1, not 1.5\n");
  CHECK(problems(with("launch_seconds", "launch_seconds = -1e-6")) ==
        "d.toml:8:1: launch_seconds must be from 0 to 1, not -1e-06\n");
  CHECK(problems(with("f32_flops", "f32_flops = nan")) ==
        "d.toml:3:1: f32_flops must be from 1 to 1e21, not nan\n");
  CHECK(problems(with("f32_flops", "f32_flops = \"10 T\""))
            .find("d.toml:3:13: 'f32_flops' in the device must be a number") == 0);
  CHECK(problems(with("cache_bandwidth", "cache_bandwidth = 5e11")) ==
        "d.toml:6:1: cache_bandwidth is 5e+11, less than memory_bandwidth 1e+12: a cache is the faster of "
        "the two\n");
  CHECK(parseDevice("name = \"x\"\nbf16_flops = 0\nf32_flops = 0\n", "d.toml").diagnostics.size() == 9);
  const DeviceResult missing = readDeviceFile("/nonexistent/device.toml");
  CHECK(missing.status == SMELT_io);
  CHECK(missing.diagnostics.text().find("cannot be read") != std::string::npos);
}
