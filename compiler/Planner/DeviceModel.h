// What a device can do, as far as a roofline needs to know it. docs/latency.md describes the files.
#pragma once

#include "compiler/Spec/Diagnostics.h"
#include "smelt/status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::planner {

// How weights or a cache are stored.
enum class NumberFormat { bf16, f32, fp8 };

std::string_view formatName(NumberFormat format); // "bf16", "f32" or "fp8"
int64_t bytesOf(NumberFormat format);

// Figures are the vendor's peaks but for the parts that kernels reach of them.
struct DeviceModel {
  std::string name;
  double bf16_flops = 0; // multiply-adds count as 2, without sparsity; a second
  double f32_flops = 0;
  double fp8_flops = 0;        // 0: none; numbers of 8 bits are then widened to bf16
  double memory_bandwidth = 0; // bytes a second
  double memory_bytes = 0;
  double cache_bandwidth = 0; // of the last level of cache, as reached
  double cache_bytes = 0;
  double launch_seconds = 0; // what each kernel costs beside its work
  double achievable_bandwidth = 1;
  double achievable_compute = 1;

  // At the peaks of the data sheet: everything is reached, kernels start for nothing and nothing is cached.
  DeviceModel atPeak() const;
  bool operator==(const DeviceModel &) const = default;
};

// A device, or every problem of its file.
struct DeviceResult {
  std::optional<DeviceModel> device;
  spec::Diagnostics diagnostics;
  smelt_status status = SMELT_ok; // SMELT_spec: the text is wrong; SMELT_io: the file cannot be read

  explicit operator bool() const { return device.has_value(); }
};

// Reads a device from TOML; file is the name that diagnostics show.
DeviceResult parseDevice(std::string_view text, std::string file);
DeviceResult readDeviceFile(const std::string &path);

// The files of specs/devices, built in: names without ".toml", in alphabetical order.
struct ShippedDevice {
  std::string_view id;
  std::string_view text;
};
std::span<const ShippedDevice> shippedDevices();

// The one with that id, or nothing.
std::optional<DeviceModel> shippedDevice(std::string_view id);

// Why there is no device of that id: the nearest one and all there are.
std::string unknownDevice(std::string_view id);

} // namespace smelt::planner
