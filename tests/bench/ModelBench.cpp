#include "tests/bench/ModelBench.h"

#include "smelt/runtime.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>

namespace smelt::bench {

namespace {

// Throws the runtime's message; benchModel turns it into ModelResult::error.
struct Failure {
  std::string message;
};

void check(smelt_status status, char *error) {
  if (status != SMELT_ok) {
    Failure failure{error ? error : smelt_status_text(status)};
    smelt_error_free(error);
    throw failure;
  }
}

template <typename T, void (*close)(T *)> struct Closer {
  void operator()(T *handle) const { close(handle); }
};
using Artifact = std::unique_ptr<smelt_artifact, Closer<smelt_artifact, smelt_artifact_close>>;
using WeightsHandle = std::unique_ptr<smelt_weights, Closer<smelt_weights, smelt_weights_close>>;
using Session = std::unique_ptr<smelt_session, Closer<smelt_session, smelt_session_destroy>>;

// Distinct experts chosen in each routed layer of each step.
struct ExpertCounter {
  double distinct = 0, layers = 0;
  static void probe(void *user, const smelt_probe *probe) {
    if (std::strcmp(probe->role, "route") != 0 || probe->dtype != SMELT_DTYPE_I32) {
      return;
    }
    auto *counter = static_cast<ExpertCounter *>(user);
    auto *indices = static_cast<const int32_t *>(probe->data);
    std::set<int32_t> seen(indices, indices + probe->bytes / 4);
    counter->distinct += seen.size();
    counter->layers += 1;
  }
};

class Bench {
public:
  Bench(const ModelRequest &request, unsigned sequences, unsigned capacity) {
    char *error = nullptr;
    smelt_artifact *artifactHandle = nullptr;
    check(smelt_artifact_open(request.artifact.c_str(), &artifactHandle, &error), error);
    artifact.reset(artifactHandle);
    std::vector<const char *> paths;
    for (const std::string &path : request.weights) {
      paths.push_back(path.c_str());
    }
    smelt_weights *weightsHandle = nullptr;
    check(smelt_weights_open(artifact.get(), paths.data(), paths.size(), &weightsHandle, &error), error);
    weights.reset(weightsHandle);
    smelt_session_options options;
    smelt_session_options_init(&options);
    options.sequences = sequences;
    options.capacity = capacity;
    options.threads = request.threads;
    options.isa = request.isa.empty() ? nullptr : request.isa.c_str();
    options.profile = true;
    smelt_session *sessionHandle = nullptr;
    check(smelt_session_create(artifact.get(), weights.get(), &options, &sessionHandle, &error), error);
    session.reset(sessionHandle);
    smelt_artifact_get_info(artifact.get(), &info);
    logits.resize(static_cast<size_t>(sequences) * info.vocab_size);
  }

  // One forward of `tokens` tokens of every sequence; logits of the last token of each.
  void step(unsigned sequences, unsigned tokens) {
    std::vector<int32_t> ids, sequence, rows;
    for (unsigned s = 0; s < sequences; ++s) {
      for (unsigned t = 0; t < tokens; ++t) {
        ids.push_back(static_cast<int32_t>(random() % info.vocab_size));
        sequence.push_back(static_cast<int32_t>(s));
      }
      rows.push_back(static_cast<int32_t>(ids.size() - 1));
    }
    smelt_step request = {ids.data(), ids.size(), nullptr, sequence.data(), rows.data(), rows.size()};
    char *error = nullptr;
    check(smelt_session_forward(session.get(), &request, logits.data(), &error), error);
  }

  void reset(unsigned sequences) {
    for (unsigned s = 0; s < sequences; ++s) {
      smelt_session_truncate(session.get(), s, 0, nullptr);
    }
  }

  // Work of all kernels since the last call.
  std::pair<double, double> takeWork() {
    double flops = 0, bytes = 0;
    smelt_kernel_profile profile;
    for (uint32_t i = 0; smelt_session_get_profile(session.get(), i, &profile); ++i) {
      flops += profile.flops;
      bytes += profile.bytes;
    }
    smelt_session_reset_profile(session.get());
    return {flops, bytes};
  }

  double countExperts(const std::function<void()> &run) {
    ExpertCounter counter;
    smelt_session_set_probe(session.get(), ExpertCounter::probe, &counter);
    run();
    smelt_session_set_probe(session.get(), nullptr, nullptr);
    return counter.layers ? counter.distinct / counter.layers : 0;
  }

  std::string isa() const {
    smelt_session_options options;
    smelt_session_get_options(session.get(), &options);
    return options.isa;
  }

  smelt_artifact_info info;

private:
  Artifact artifact;
  WeightsHandle weights;
  Session session;
  std::vector<float> logits;
  std::mt19937 random{1};
};

struct Sample {
  double seconds, flops, bytes;
  Placement placement;
  bool moved; // the placement changed while the sample was taken
};

// Keeps the samples of the most frequent placement.
Measurement reduce(std::string phase, const std::vector<Sample> &samples, double tokens, double experts) {
  std::map<Placement, unsigned> counts;
  for (const Sample &sample : samples) {
    counts[sample.placement] += !sample.moved;
  }
  auto common = std::max_element(counts.begin(), counts.end(),
                                 [](const auto &a, const auto &b) { return a.second < b.second; });
  Measurement result;
  result.phase = std::move(phase);
  result.experts = experts;
  result.placement = common->first;
  std::vector<double> rates, gflops, gbytes;
  for (const Sample &sample : samples) {
    if (sample.moved || sample.placement != common->first) {
      ++result.dropped;
      continue;
    }
    rates.push_back(tokens / sample.seconds);
    gflops.push_back(sample.flops / sample.seconds / 1e9);
    gbytes.push_back(sample.bytes / sample.seconds / 1e9);
  }
  result.kept = rates.size();
  result.tokens_per_second = summarize(rates);
  result.gflops = summarize(gflops).median;
  result.gbytes_per_second = summarize(gbytes).median;
  return result;
}

Measurement measure(Bench &bench, unsigned repeats, std::string phase, double tokens,
                    const std::function<void()> &prepare, const std::function<void()> &run) {
  prepare();
  double experts = bench.countExperts(run); // also brings the weights into memory
  std::vector<Sample> samples;
  for (unsigned i = 0; i < repeats; ++i) {
    prepare();
    bench.takeWork();
    Placement before = probePlacement();
    double start = now();
    run();
    double seconds = now() - start;
    Placement after = probePlacement();
    auto [flops, bytes] = bench.takeWork();
    samples.push_back({seconds, flops, bytes, before, before != after});
  }
  return reduce(std::move(phase), samples, tokens, experts);
}

} // namespace

ModelResult benchModel(const ModelRequest &request, const std::vector<unsigned> &prefills,
                       const std::vector<unsigned> &batches, unsigned decodeSteps) {
  ModelResult result;
  unsigned longest = prefills.empty() ? 16 : *std::max_element(prefills.begin(), prefills.end());
  unsigned widest = batches.empty() ? 1 : *std::max_element(batches.begin(), batches.end());
  constexpr unsigned kContext = 16; // positions already cached when decoding starts
  try {
    {
      Bench bench(request, 1, longest);
      result.model = bench.info.model_name;
      result.isa = bench.isa();
      result.weights_dtype = smelt_dtype_name(bench.info.weights_dtype);
      for (unsigned tokens : prefills) {
        result.measurements.push_back(measure(
            bench, request.repeats, "prefill " + std::to_string(tokens), tokens, [&] { bench.reset(1); },
            [&] { bench.step(1, tokens); }));
      }
    }
    Bench bench(request, widest, kContext + decodeSteps);
    for (unsigned batch : batches) {
      auto prepare = [&] {
        bench.reset(widest);
        bench.step(batch, kContext);
      };
      auto run = [&] {
        for (unsigned i = 0; i < decodeSteps; ++i) {
          bench.step(batch, 1);
        }
      };
      result.measurements.push_back(measure(bench, request.repeats, "decode x" + std::to_string(batch),
                                            static_cast<double>(batch) * decodeSteps, prepare, run));
    }
  } catch (const Failure &failure) {
    result.error = failure.message;
  }
  return result;
}

} // namespace smelt::bench
