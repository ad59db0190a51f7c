// The options of `smelt-run` and `smeltc run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace smelt::runtime {

struct RunOptions {
  std::string artifact;
  std::vector<std::string> weights;
  std::vector<std::string> tokens; // each one prompt, "1,2,3"
  std::string tokensFile;          // .json or .npy
  std::optional<uint32_t> maxNewTokens;
  double temperature = 0;
  double topP = 1;
  uint32_t topK = 0;
  uint64_t seed = 0;
  std::string logits; // output path
  bool batch = false;
  uint32_t threads = 0; // 0: all
  bool profile = false;
  std::string isa; // empty: the best
  std::string device = "cpu";
  std::string gemm = "auto";
  std::string weightsCache; // a file, "auto", or empty: none
  bool checkWeightsCache = false;
  std::optional<uint32_t> chunk; // default: 512, or 4096 on a GPU
  bool json = false;
  bool noPreload = false;
};

// Adds the options to a command; parsing it fills `options`.
void addRunOptions(CLI::App &app, RunOptions &options);

} // namespace smelt::runtime
