#include "tests/bench/Model.h"

#include <algorithm>
#include <cstring>

namespace smelt::bench {

namespace {

void check(smelt_status status, char *error) {
  if (status != SMELT_ok) {
    Failure failure(error ? error : smelt_status_text(status));
    smelt_error_free(error);
    throw failure;
  }
}

void countRoute(void *user, const smelt_probe *probe) {
  if (std::strcmp(probe->role, "route") != 0 || probe->dtype != SMELT_DTYPE_I32) {
    return;
  }
  auto *indices = static_cast<const int32_t *>(probe->data);
  Tokens seen(indices, indices + probe->bytes / sizeof(int32_t));
  std::sort(seen.begin(), seen.end());
  auto *count = static_cast<ExpertCount *>(user);
  count->distinct += static_cast<uint64_t>(std::unique(seen.begin(), seen.end()) - seen.begin());
  ++count->layers;
}

} // namespace

Model::Model(const ModelRequest &request) : request(request) {
  char *error = nullptr;
  smelt_artifact *artifactHandle = nullptr;
  check(smelt_artifact_open(request.artifact.c_str(), &artifactHandle, &error), error);
  artifact.reset(artifactHandle);
  smelt_artifact_get_info(artifact.get(), &info);
  std::vector<const char *> paths;
  for (const std::string &path : request.weights) {
    paths.push_back(path.c_str());
  }
  smelt_weights *weightsHandle = nullptr;
  check(smelt_weights_open(artifact.get(), paths.data(), paths.size(), &weightsHandle, &error), error);
  weights.reset(weightsHandle);
  check(smelt_weights_preload(weights.get(), nullptr, nullptr, &error), error);
  keeper = create(1, 16, false);
}

std::string Model::isa() const {
  smelt_session_options options;
  smelt_session_get_options(session.get(), &options);
  return options.isa;
}

double Model::kvBytes() const {
  smelt_memory memory;
  smelt_session_get_memory(session.get(), &memory);
  return static_cast<double>(memory.state) / (static_cast<double>(sequences) * memory.capacity);
}

Model::Session Model::create(unsigned sequences, unsigned capacity, bool profile) const {
  smelt_session_options options;
  smelt_session_options_init(&options);
  options.sequences = sequences;
  options.capacity = capacity;
  options.threads = request.threads;
  options.isa = request.isa.empty() ? nullptr : request.isa.c_str();
  options.profile = profile;
  char *error = nullptr;
  smelt_session *handle = nullptr;
  check(smelt_session_create(artifact.get(), weights.get(), &options, &handle, &error), error);
  return Session(handle);
}

void Model::useSession(unsigned newSequences, unsigned newCapacity, bool profile) {
  if (session && sequences == newSequences && capacity == newCapacity && profiles == profile) {
    return;
  }
  session.reset(); // before the next one asks for memory
  session = create(newSequences, newCapacity, profile);
  sequences = newSequences;
  capacity = newCapacity;
  profiles = profile;
}

void Model::clear() {
  for (unsigned s = 0; s < sequences; ++s) {
    smelt_session_truncate(session.get(), s, 0, nullptr);
  }
}

const std::vector<float> &Model::step(const std::vector<Tokens> &tokens) {
  ids.clear();
  sequenceIds.clear();
  rows.clear();
  for (size_t s = 0; s < tokens.size(); ++s) {
    ids.insert(ids.end(), tokens[s].begin(), tokens[s].end());
    sequenceIds.resize(ids.size(), static_cast<int32_t>(s));
    rows.push_back(static_cast<int32_t>(ids.size() - 1));
  }
  logits.resize(rows.size() * info.vocab_size);
  smelt_step step = {ids.data(), ids.size(), nullptr, sequenceIds.data(), rows.data(), rows.size()};
  char *error = nullptr;
  check(smelt_session_forward(session.get(), &step, logits.data(), &error), error);
  return logits;
}

void Model::countExperts(ExpertCount *count) {
  smelt_session_set_probe(session.get(), count ? countRoute : nullptr, count);
}

std::vector<KernelTime> Model::takeProfile() {
  std::vector<KernelTime> times;
  smelt_kernel_profile profile;
  for (uint32_t i = 0; smelt_session_get_profile(session.get(), i, &profile); ++i) {
    times.push_back({profile.kernel, profile.role, profile.calls, profile.seconds});
  }
  smelt_session_reset_profile(session.get());
  return times;
}

} // namespace smelt::bench
