// Decoding and prefill with hash weights, and how near they come to the GPU's memory.
#include "tests/gpu/Check.h"
#include "tests/support/RuntimeModel.h"

#include <fmt/format.h>

#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

namespace smelt::gpu {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Tokens that differ from step to step and sequence to sequence: a hash.
int32_t tokenAt(uint32_t sequence, uint32_t position, uint32_t vocab) {
  uint32_t x = (position * 0x9e3779b1U) ^ (sequence * 0x85ebca6bU);
  x = (x ^ x >> 16) * 0x7feb352dU;
  return int32_t((x ^ x >> 15) % vocab);
}

// Different experts a step touches, over all layers it executes, and how many it would touch at most.
struct Distinct {
  uint64_t count = 0, most = 0;
  uint32_t experts = 0;

  static void probe(void *user, const smelt_probe *probe) {
    std::string_view role = probe->role;
    if ((role != "route" && role != "norm_route") || probe->dtype != SMELT_DTYPE_I32) {
      return;
    }
    auto &self = *static_cast<Distinct *>(user);
    const auto *chosen = static_cast<const int32_t *>(probe->data);
    std::set<int32_t> seen(chosen, chosen + probe->bytes / 4);
    self.count += seen.size();
    self.most += std::min<uint64_t>(probe->bytes / 4, self.experts);
  }
};

class Timer {
public:
  Timer(const tests::RuntimeModel &model, const SpeedOptions &options) : model(model), options(options) {
    info = model.info();
    smelt_weight_info weight;
    for (uint32_t i = 0; smelt_artifact_get_weight(model.artifact(), i, &weight); ++i) {
      distinct.experts = std::max(distinct.experts, weight.experts);
    }
  }

  // What may multiply the matrices of a step of so many rows, see smelt_session_options.gemm: kernels of our own,
  // and cuBLASLt where it is there and takes such steps.
  std::vector<std::string> waysOf(uint32_t rows) {
    if (rows < 32) {
      return {"own"};
    }
    if (!hasCublas) {
      gemm = "auto";
      open(1, 64, 64, false);
      smelt_session_options options;
      smelt_session_get_options(session.get(), &options);
      hasCublas = std::string_view(options.gemm) == "cublas";
    }
    return *hasCublas ? std::vector<std::string>{"own", "cublas"} : std::vector<std::string>{"own"};
  }

  // Seconds of a step that appends one token to each of `batch` sequences.
  ordered_json decode(uint32_t batch, const std::string &way) {
    gemm = way;
    open(batch, options.context + options.steps + 16, std::min(options.chunk, 4096u), false);
    fillContext(batch);
    std::vector<double> seconds;
    for (uint32_t i = 0; i < options.steps + 3; ++i) {
      double time = step(batch);
      if (i >= 3) { // the first are launched and captured
        seconds.push_back(time);
      }
    }
    double bytes = bytesOfStep(batch);
    return {{"batch", batch},
            {"gemm", smelt_session_gemm(session.get())},
            {"kernels", kernels()},
            {"context", options.context},
            {"seconds", median(seconds)},
            {"fastest", *std::min_element(seconds.begin(), seconds.end())},
            {"tokens_per_second", batch / median(seconds)},
            {"bytes", bytes},
            {"distinct_experts", share()}};
  }

  ordered_json prefill(uint32_t tokens, const std::string &way) {
    gemm = way;
    open(1, tokens + 16, options.chunk, false);
    std::vector<double> seconds;
    for (int i = 0; i < 5; ++i) {
      double time = prompt(tokens);
      if (i >= 2) {
        seconds.push_back(time);
      }
    }
    open(1, tokens + 16, options.chunk, true);
    prompt(tokens); // the first runs of code and library take longer
    smelt_session_reset_profile(session.get());
    prompt(tokens);
    return {{"prompt", tokens},
            {"gemm", smelt_session_gemm(session.get())},
            {"kernels", kernels()},
            {"seconds", median(seconds)},
            {"tokens_per_second", tokens / median(seconds)}};
  }

  uint64_t deviceWeights() const {
    smelt_memory memory;
    smelt_session_get_memory(session.get(), &memory);
    return memory.device_weights;
  }

private:
  void check(smelt_status status) {
    if (status != SMELT_ok) {
      std::string message = error ? error : "";
      smelt_error_free(error);
      throw tests::RuntimeError(status, message);
    }
  }

  double prompt(uint32_t count) {
    check(smelt_session_truncate(session.get(), 0, 0, &error));
    std::vector<int32_t> tokens(count), sequences(count, 0);
    for (uint32_t t = 0; t < count; ++t) {
      tokens[t] = tokenAt(0, t, info.vocab_size);
    }
    return forward(tokens, sequences, {int32_t(count - 1)});
  }

  // Of a session that profiles: what every kernel took since the last reset.
  ordered_json kernels() const {
    ordered_json list = ordered_json::array();
    smelt_kernel_profile kernel;
    for (uint32_t i = 0; smelt_session_get_profile(session.get(), i, &kernel); ++i) {
      if (kernel.calls) {
        // Bytes of experts are an upper bound: each choice's counts.
        list.push_back({{"kernel", kernel.kernel},
                        {"role", kernel.role},
                        {"calls", kernel.calls},
                        {"seconds", kernel.seconds},
                        {"bytes", kernel.bytes},
                        {"flops", kernel.flops}});
      }
    }
    return list;
  }

  void open(uint32_t sequences, uint32_t capacity, uint32_t chunk, bool profile) {
    session.reset();
    smelt_session_options wanted;
    smelt_session_options_init(&wanted);
    wanted.sequences = sequences;
    wanted.capacity = capacity;
    wanted.max_step_tokens = std::max(chunk, sequences);
    wanted.max_logit_rows = sequences;
    wanted.device = options.device.c_str();
    wanted.gemm = gemm.c_str();
    wanted.profile = profile;
    smelt_session *made = nullptr;
    check(smelt_session_create(model.artifact(), model.weights(), &wanted, &made, &error));
    session.reset(made);
    positions.assign(sequences, 0);
  }

  double forward(const std::vector<int32_t> &tokens, const std::vector<int32_t> &sequences,
                 const std::vector<int32_t> &rows) {
    logits.resize(rows.size() * info.vocab_size);
    smelt_step step = {};
    step.tokens = tokens.data();
    step.token_count = tokens.size();
    step.sequence_ids = sequences.data();
    step.logit_rows = rows.data();
    step.logit_row_count = rows.size();
    Clock::time_point start = Clock::now();
    check(smelt_session_forward(session.get(), &step, logits.data(), &error));
    return secondsSince(start);
  }

  void fillContext(uint32_t batch) {
    for (uint32_t sequence = 0; sequence < batch && options.context; ++sequence) {
      std::vector<int32_t> tokens(options.context), sequences(options.context, int32_t(sequence));
      for (uint32_t t = 0; t < options.context; ++t) {
        tokens[t] = tokenAt(sequence, t, info.vocab_size);
      }
      forward(tokens, sequences, {});
      positions[sequence] = options.context;
    }
  }

  double step(uint32_t batch) {
    std::vector<int32_t> tokens(batch), sequences(batch);
    std::iota(sequences.begin(), sequences.end(), 0);
    for (uint32_t i = 0; i < batch; ++i) {
      tokens[i] = tokenAt(i, positions[i]++, info.vocab_size);
    }
    return forward(tokens, sequences, sequences);
  }

  // Bytes a step has to move: the profile's count with the experts that were really different.
  double bytesOfStep(uint32_t batch) {
    distinct.count = distinct.most = 0;
    smelt_session_set_probe(session.get(), Distinct::probe, &distinct);
    step(batch);
    uint32_t context = positions[0];
    open(batch, context + 16, std::min(options.chunk, 4096u), true);
    fillContext(batch);
    smelt_session_reset_profile(session.get());
    step(batch);
    double total = 0;
    smelt_kernel_profile kernel;
    for (uint32_t i = 0; smelt_session_get_profile(session.get(), i, &kernel); ++i) {
      bool experts = std::string_view(kernel.role).starts_with("experts_");
      total += kernel.bytes * (experts ? share() : 1);
    }
    return total;
  }
  double share() const { return distinct.most ? double(distinct.count) / double(distinct.most) : 1; }

  const tests::RuntimeModel &model;
  const SpeedOptions &options;
  smelt_artifact_info info = {};
  Distinct distinct;
  std::string gemm = "own";
  std::optional<bool> hasCublas;
  std::unique_ptr<smelt_session, void (*)(smelt_session *)> session{nullptr, smelt_session_destroy};
  std::vector<uint32_t> positions;
  std::vector<float> logits;
  char *error = nullptr;
};

void printKernels(const ordered_json &kernels) {
  for (const ordered_json &kernel : kernels) {
    double seconds = std::max(1e-12, kernel["seconds"].get<double>());
    fmt::print("    {:<28} {:>5} calls, {:>9.2f} us each, {:>8.1f} GB/s, {:>7.2f} TFLOP/s\n",
               kernel["role"].get<std::string>(), kernel["calls"].get<uint64_t>(),
               seconds * 1e6 / kernel["calls"].get<double>(), kernel["bytes"].get<double>() / seconds * 1e-9,
               kernel["flops"].get<double>() / seconds * 1e-12);
  }
}

} // namespace

void measureSpeed(const std::string &artifact, const SpeedOptions &options, const Limits &limits,
                  ordered_json &results) {
  tests::RuntimeModel model(artifact, {"splat:" + std::to_string(options.seed)});
  Timer timer(model, options);
  std::string name = model.info().model_name;
  fmt::print("{}\n", name);
  for (uint32_t batch : options.batches) {
    for (const std::string &way : timer.waysOf(batch)) {
      ordered_json result = timer.decode(batch, way);
      double rate = result["bytes"].get<double>() / result["seconds"].get<double>();
      result["share_of_read_rate"] = limits.readBytesPerSecond ? rate / limits.readBytesPerSecond : 0;
      result["model"] = name;
      fmt::print("  decode batch {:>3}, context {}, by {}: {:>8.3f} ms, {:>9.1f} tokens/s, {:>6.2f} GB, "
                 "{:>5.1f}% of read rate\n",
                 batch, options.context, result["gemm"].get<std::string>(),
                 result["seconds"].get<double>() * 1e3, result["tokens_per_second"].get<double>(),
                 result["bytes"].get<double>() * 1e-9, result["share_of_read_rate"].get<double>() * 100);
      printKernels(result["kernels"]);
      results["decode"].push_back(std::move(result));
    }
  }
  for (uint32_t prompt : options.prompts) {
    for (const std::string &way : timer.waysOf(prompt)) {
      ordered_json result = timer.prefill(prompt, way);
      // Every expert is read in each visit once a prompt is long; the device's weights are a lower bound.
      double rate = double(timer.deviceWeights()) / result["seconds"].get<double>();
      result["share_of_read_rate"] = limits.readBytesPerSecond ? rate / limits.readBytesPerSecond : 0;
      result["model"] = name;
      fmt::print("  prefill {:>5}, by {}: {:>8.3f} ms, {:>9.1f} tokens/s\n", prompt,
                 result["gemm"].get<std::string>(), result["seconds"].get<double>() * 1e3,
                 result["tokens_per_second"].get<double>());
      printKernels(result["kernels"]);
      results["prefill"].push_back(std::move(result));
    }
  }
}

} // namespace smelt::gpu
