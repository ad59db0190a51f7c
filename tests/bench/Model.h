// One compiled model with its weights, run as a user of the runtime would.
#pragma once

#include "smelt/runtime.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace smelt::bench {

struct ModelRequest {
  std::string artifact;
  std::vector<std::string> weights;
  std::string isa; // empty: the best of the machine
  unsigned threads = 0;
};

// The runtime's message.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Tokens = std::vector<int32_t>;

// Distinct experts chosen, summed over routed layers and steps.
struct ExpertCount {
  uint64_t distinct = 0;
  uint64_t layers = 0; // routed layers executed, over all steps
};

// What one kernel took over a run.
struct KernelTime {
  std::string kernel, role;
  uint64_t calls = 0;
  double seconds = 0;
};

class Model {
public:
  explicit Model(const ModelRequest &request); // throws Failure

  std::string name() const { return info.model_name; }
  std::string weightsDType() const { return smelt_dtype_name(info.weights_dtype); }
  uint32_t vocabSize() const { return info.vocab_size; }
  // Of the session in use.
  std::string isa() const;
  double kvBytes() const; // of one cached position, all executed layers together

  // Makes the session that following steps use, unless the last one is the same: `sequences` empty sequences
  // of `capacity` positions. A profiling session measures each kernel, which slows small models down.
  void useSession(unsigned sequences, unsigned capacity, bool profile);
  void clear(); // empties every sequence

  // One forward of tokens[s] of each sequence s; returns the logits of the last token of each.
  const std::vector<float> &step(const std::vector<Tokens> &tokens);

  // Counts the experts of the steps until the next call.
  void countExperts(ExpertCount *count);
  std::vector<KernelTime> takeProfile();

private:
  template <typename T, void (*close)(T *)> struct Closer {
    void operator()(T *handle) const { close(handle); }
  };
  ModelRequest request;
  std::unique_ptr<smelt_artifact, Closer<smelt_artifact, smelt_artifact_close>> artifact;
  std::unique_ptr<smelt_weights, Closer<smelt_weights, smelt_weights_close>> weights;
  using Session = std::unique_ptr<smelt_session, Closer<smelt_session, smelt_session_destroy>>;
  Session create(unsigned sequences, unsigned capacity, bool profile) const;

  // Sessions of one model share what is made of its weights for as long as one of them lives, so one always
  // does.
  Session keeper;
  Session session;
  smelt_artifact_info info = {};
  unsigned sequences = 0, capacity = 0;
  bool profiles = false;
  Tokens ids, sequenceIds, rows; // of the step
  std::vector<float> logits;
};

} // namespace smelt::bench
