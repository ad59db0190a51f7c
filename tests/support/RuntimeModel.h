// The runtime's C API for tests: handles that close themselves, errors as exceptions.
#pragma once

#include "smelt/runtime.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace smelt::tests {

// A status other than SMELT_ok, with the runtime's message.
struct RuntimeError : std::runtime_error {
  RuntimeError(smelt_status status, const std::string &message)
      : std::runtime_error(message), status(status) {}
  smelt_status status;
};

// Row-major f32 [rows, vocab].
struct Logits {
  size_t vocab = 0;
  std::vector<float> values;

  size_t rows() const { return vocab ? values.size() / vocab : 0; }
  std::vector<float> row(size_t index) const {
    return {values.begin() + index * vocab, values.begin() + (index + 1) * vocab};
  }
};

// An artifact with its weights bound.
class RuntimeModel {
public:
  RuntimeModel(const std::string &artifact_path, const std::vector<std::string> &weight_paths);

  const smelt_artifact *artifact() const { return artifact_handle.get(); }
  const smelt_weights *weights() const { return weights_handle.get(); }
  smelt_artifact_info info() const;
  // Names of the code variants that this machine can run.
  std::vector<std::string> supportedIsas() const;

private:
  std::unique_ptr<smelt_artifact, void (*)(smelt_artifact *)> artifact_handle;
  std::unique_ptr<smelt_weights, void (*)(smelt_weights *)> weights_handle;
};

// One token of a step that mixes sequences.
struct PlacedToken {
  int32_t sequence;
  int32_t token;
};

// What the router chose for one token in one executed layer, in the order of the top_k.
struct RoutingChoice {
  int32_t layer, visit;
  uint64_t token; // index into the forwarded tokens
  std::vector<int32_t> experts;
  bool operator==(const RoutingChoice &) const = default;
};

struct SessionSettings {
  uint32_t sequences = 1;
  uint32_t capacity = 320;
  uint32_t max_step_tokens = 0; // 0: the runtime's default
  uint32_t threads = 2;
  std::string isa;    // empty: the best one
  std::string device; // empty: the CPU
  std::string gemm;   // empty: auto
};

// A step over the given tokens; it points into the vectors.
smelt_step stepOf(const std::vector<int32_t> &tokens, const std::vector<int32_t> &sequences,
                  const std::vector<int32_t> &logitRows);

// Steps are as long as they may be: they have as many rows of logits as tokens.
class RuntimeSession {
public:
  explicit RuntimeSession(const RuntimeModel &model, const SessionSettings &settings = {});

  // Appends tokens to a sequence; the logits after each of them.
  Logits append(const std::vector<int32_t> &tokens, int32_t sequence = 0);
  // Appends tokens of several sequences in the given order; the logits after each of them.
  Logits append(const std::vector<PlacedToken> &tokens);
  void truncate(uint32_t sequence, uint32_t length);
  uint32_t length(uint32_t sequence = 0) const { return smelt_session_length(handle.get(), sequence); }

  // From now on every forward adds its routing here, in execution order.
  void recordRouting(std::vector<RoutingChoice> &choices, int64_t top_k);
  smelt_session *get() { return handle.get(); }

private:
  struct Recorder {
    std::vector<RoutingChoice> *choices = nullptr;
    int64_t top_k = 0;
  };
  static void probe(void *user, const smelt_probe *probe);

  std::unique_ptr<smelt_session, void (*)(smelt_session *)> handle;
  std::unique_ptr<Recorder> recorder = std::make_unique<Recorder>();
  size_t vocab;
};

} // namespace smelt::tests
