#include "tests/bench/Server.h"

#include "tests/bench/Placement.h"
#include "tests/bench/Statistics.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace smelt::bench {

namespace {

using Json = nlohmann::json;

void answer(const Json &json) {
  fmt::print("{}\n", json.dump());
  std::fflush(stdout);
}

double seconds(const std::function<void()> &run) {
  double start = now();
  run();
  return now() - start;
}

class ModelServer {
public:
  explicit ModelServer(const ModelRequest &request) : model(request) {}

  Json ready() {
    model.useSession(1, 16, false);
    return {{"ready", true},
            {"model", model.name()},
            {"isa", model.isa()},
            {"weights_dtype", model.weightsDType()},
            {"kv_bytes", model.kvBytes()},
            {"vocab_size", model.vocabSize()}};
  }

  Json run(const Json &request) {
    std::string what = request.at("do");
    bool count = request.value("count", false);
    if (what == "prefill") {
      std::vector<Tokens> tokens = {request.at("tokens").get<Tokens>()};
      model.useSession(1, static_cast<unsigned>(tokens[0].size()), count);
      model.clear();
      return timed(count, [&] { model.step(tokens); });
    }
    if (what == "logits") {
      std::vector<Tokens> tokens = {request.at("tokens").get<Tokens>()};
      model.useSession(1, static_cast<unsigned>(tokens[0].size()), false);
      model.clear();
      return {{"logits", model.step(tokens)}};
    }
    if (what == "decode") {
      return decode(request, count);
    }
    throw Failure(fmt::format("unknown request '{}'", what));
  }

private:
  Json decode(const Json &request, bool count) {
    auto context = request.at("context").get<std::vector<Tokens>>();
    auto next = request.at("next").get<std::vector<Tokens>>();
    std::vector<std::vector<Tokens>> steps; // one token of each sequence
    for (const Tokens &step : next) {
      std::vector<Tokens> &tokens = steps.emplace_back();
      for (int32_t token : step) {
        tokens.push_back({token});
      }
    }
    model.useSession(static_cast<unsigned>(context.size()),
                     static_cast<unsigned>(context[0].size() + steps.size()), count);
    model.clear();
    model.step(context);
    if (count) {
      model.takeProfile();
    }
    return timed(count, [&] {
      for (const std::vector<Tokens> &step : steps) {
        model.step(step);
      }
    });
  }

  Json timed(bool count, const std::function<void()> &run) {
    if (!count) {
      return {{"seconds", seconds(run)}};
    }
    ExpertCount experts;
    model.countExperts(&experts);
    double time = seconds(run);
    model.countExperts(nullptr);
    Json kernels = Json::array();
    for (const KernelTime &kernel : model.takeProfile()) {
      kernels.push_back({{"kernel", kernel.kernel},
                         {"role", kernel.role},
                         {"calls", kernel.calls},
                         {"seconds", kernel.seconds}});
    }
    return {{"seconds", time},
            {"distinct", experts.distinct},
            {"routed_layers", experts.layers},
            {"kernels", kernels}};
  }

  Model model;
};

} // namespace

int serveModel(const ModelRequest &request) {
  try {
    ModelServer server(request);
    answer(server.ready());
    for (std::string line; std::getline(std::cin, line);) {
      try {
        answer(server.run(Json::parse(line)));
      } catch (const std::exception &failure) {
        answer({{"error", failure.what()}});
      }
    }
  } catch (const std::exception &failure) {
    answer({{"error", failure.what()}});
    return SMELT_internal;
  }
  return SMELT_ok;
}

int servePlacement() {
  for (std::string line; std::getline(std::cin, line);) {
    PlacementProbe probe = probePlacement();
    answer({{"placement", placementName(probe.placement)}, {"nanoseconds", probe.seconds * 1e9}});
  }
  return SMELT_ok;
}

} // namespace smelt::bench
