// The parts of smelt-gpu-check. Each prints lines for people and adds its results to `results`, which run.sh
// keeps as JSON; problems are thrown.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::gpu {

// Compares every case of a folder that prepare.sh made with its reference. False when one is wrong.
bool checkNumbers(const std::string &folder, const std::string &device, nlohmann::ordered_json &results);

// What the GPU itself can do: bytes read per second, microseconds per node of a graph.
struct Limits {
  double readBytesPerSecond = 0;
  double secondsPerGraphNode = 0;
};
// [rows, depth] times the transpose of [outputs, depth].
struct ProductShape {
  uint64_t rows = 0, outputs = 0, depth = 0;
  std::string text() const;
};
struct LimitOptions {
  std::string device = "cuda";
  uint64_t readBytes = uint64_t(4) << 30; // fewer than 2^34
  uint32_t barrierRounds = 1000;          // of all blocks of a grid, in one launch
  std::string kernels;                    // a file of smelt-gpu-kernels, or none
  // Q, K and V in one, O, and the router of the 1.6B cell.
  std::vector<ProductShape> products = {{64, 2272, 1848},   {64, 1848, 1512},   {64, 504, 1848},
                                        {2048, 2272, 1848}, {2048, 1848, 1512}, {2048, 504, 1848}};
};
// 0 for what could not be measured; `problems` says why.
Limits measureLimits(const LimitOptions &options, nlohmann::ordered_json &results);

struct SpeedOptions {
  std::string device = "cuda";
  std::vector<uint32_t> batches = {1, 2, 4, 8, 16, 32, 64};
  std::vector<uint32_t> prompts = {128, 512, 2048, 4096, 8192};
  uint32_t context = 1024; // positions each sequence holds when decoding is timed
  uint32_t steps = 50;     // timed
  uint32_t chunk = 8192;   // tokens of one step of a prompt
  uint64_t seed = 1;       // of the splat weights
};
// Times decoding and prefill of one artifact.
void measureSpeed(const std::string &artifact, const SpeedOptions &options, const Limits &limits,
                  nlohmann::ordered_json &results);

double median(std::vector<double> values);

} // namespace smelt::gpu
