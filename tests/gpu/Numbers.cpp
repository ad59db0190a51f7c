// Logits and routing on the GPU against the double precision interpreter's.
#include "tests/gpu/Check.h"
#include "tests/support/Compare.h"
#include "tests/support/Npy.h"
#include "tests/support/RuntimeModel.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

namespace smelt::gpu {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using tests::RoutingChoice;

constexpr double logitsTolerance = 1e-2; // relative L2, bf16
constexpr double openChoice = 3e-2;      // gap between the scores of the last expert taken and the first left

ordered_json readJson(const fs::path &path) {
  std::ifstream in(path);
  if (!in) {
    throw std::runtime_error(path.string() + ": cannot be read");
  }
  return ordered_json::parse(in);
}

// The interpreter's choices by (layer, visit, token).
struct ExpectedChoice {
  std::vector<int32_t> experts;
  double gap = 0;
};
using ExpectedRouting = std::map<std::tuple<int32_t, int32_t, uint64_t>, ExpectedChoice>;

ExpectedRouting readRouting(const fs::path &path) {
  ExpectedRouting routing;
  for (const ordered_json &choice : readJson(path)) {
    ExpectedChoice &expected = routing[{choice["layer"], choice["visit"], choice["token"]}];
    expected.experts = choice["experts"].get<std::vector<int32_t>>();
    expected.gap = choice["gap"].is_null() ? INFINITY : choice["gap"].get<double>();
  }
  return routing;
}

struct Verdict {
  uint64_t firstFlip = UINT64_MAX; // token whose routing went another way at an open choice
  std::string problem;
};

// Another expert may only be taken where the scores leave it open. What a token computes after that, and what
// later tokens see of it, is then incomparable.
Verdict judgeRouting(const std::vector<RoutingChoice> &actual, const ExpectedRouting &expected) {
  Verdict verdict;
  for (const RoutingChoice &choice : actual) {
    auto place = expected.find({choice.layer, choice.visit, choice.token});
    if (place == expected.end()) {
      verdict.problem = fmt::format("layer {} visit {} token {} is not routed in the reference", choice.layer,
                                    choice.visit, choice.token);
      continue;
    }
    auto sorted = [](std::vector<int32_t> experts) {
      std::sort(experts.begin(), experts.end());
      return experts;
    };
    if (choice.token >= verdict.firstFlip || sorted(choice.experts) == sorted(place->second.experts)) {
      continue;
    }
    if (place->second.gap > openChoice) {
      verdict.problem = fmt::format(
          "layer {} visit {} token {} took experts {}, the reference {}, whose scores are {} apart",
          choice.layer, choice.visit, choice.token, ordered_json(choice.experts).dump(),
          ordered_json(place->second.experts).dump(), place->second.gap);
    }
    verdict.firstFlip = choice.token;
  }
  return verdict;
}

// One way to run the tokens: in steps of `chunk`, with one of the ways to multiply (smelt_session_options.gemm).
bool runCase(const fs::path &folder, const std::string &device, uint32_t chunk, const std::string &gemm,
             ordered_json &results) {
  tests::RuntimeModel model((folder / "model.smelt").string(), {(folder / "weights.safetensors").string()});
  auto tokens = readJson(folder / "tokens.json").get<std::vector<int32_t>>();
  tests::Matrix reference = tests::readNpy((folder / "logits.npy").string());
  ExpectedRouting routing = readRouting(folder / "routing.json");
  tests::SessionSettings settings;
  settings.device = device;
  settings.max_step_tokens = chunk;
  settings.gemm = gemm;
  tests::RuntimeSession session(model, settings);
  int64_t topK = routing.empty() ? 0 : int64_t(routing.begin()->second.experts.size());
  std::vector<RoutingChoice> choices;
  if (topK) {
    session.recordRouting(choices, topK);
  }
  tests::Logits observed = session.append(tokens);
  // Once more without a probe: as users run it, in graphs. A token by token run replays one graph.
  tests::RuntimeSession plain(model, settings);
  bool same = plain.append(tokens).values == observed.values;

  Verdict verdict = judgeRouting(choices, routing);
  uint64_t rows = std::min<uint64_t>(verdict.firstFlip, tokens.size());
  std::vector<float> actual(observed.values.begin(), observed.values.begin() + long(rows * observed.vocab));
  std::vector<double> expected(reference.values.begin(),
                               reference.values.begin() + long(rows * observed.vocab));
  double error = rows ? tests::relativeL2(actual, expected) : 0;
  std::string problem = verdict.problem;
  if (!(error <= logitsTolerance)) {
    problem = fmt::format("relative error {:.2e} exceeds {:.0e}", error, logitsTolerance);
  } else if (!same) {
    problem = "steps with and without a probe differ";
  }
  fmt::print("  {:<28} {:>5} tokens in steps of {:<4} by {}, error {:.1e} over {} rows  {}\n",
             folder.filename().string(), tokens.size(), chunk, smelt_session_gemm(plain.get()), error, rows,
             problem.empty() ? "ok" : "WRONG: " + problem);
  results.push_back({{"case", folder.filename().string()},
                     {"chunk", chunk},
                     {"gemm", smelt_session_gemm(plain.get())},
                     {"relative_error", error},
                     {"rows", rows},
                     {"problem", problem}});
  return problem.empty();
}

} // namespace

bool checkNumbers(const std::string &folder, const std::string &device, ordered_json &results) {
  std::vector<fs::path> cases;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.smelt")) {
      cases.push_back(entry.path());
    }
  }
  std::sort(cases.begin(), cases.end());
  if (cases.empty()) {
    throw std::runtime_error(folder + ": holds no case; prepare.sh makes them");
  }
  bool right = true;
  for (const fs::path &path : cases) {
    for (uint32_t chunk : {1u, 7u, 512u}) { // decode, a short step, prefill
      right = runCase(path, device, chunk, "own", results["numbers"]) && right;
    }
    // Where there is no cuBLASLt, the same again.
    right = runCase(path, device, 512, "auto", results["numbers"]) && right;
  }
  return right;
}

} // namespace smelt::gpu
