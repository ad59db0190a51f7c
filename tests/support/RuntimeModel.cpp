#include "tests/support/RuntimeModel.h"

#include <cstring>
#include <numeric>
#include <string_view>

namespace smelt::tests {
namespace {

void check(smelt_status status, char *error) {
  const std::string message = error ? error : "";
  smelt_error_free(error);
  if (status != SMELT_ok) {
    throw RuntimeError(status, message);
  }
}

} // namespace

RuntimeModel::RuntimeModel(const std::string &artifact_path, const std::vector<std::string> &weight_paths)
    : artifact_handle(nullptr, smelt_artifact_close), weights_handle(nullptr, smelt_weights_close) {
  char *error = nullptr;
  smelt_artifact *artifact = nullptr;
  const smelt_status opened = smelt_artifact_open(artifact_path.c_str(), &artifact, &error);
  artifact_handle.reset(artifact);
  check(opened, error);

  std::vector<const char *> paths;
  for (const std::string &path : weight_paths) {
    paths.push_back(path.c_str());
  }
  error = nullptr;
  smelt_weights *weights = nullptr;
  const smelt_status bound = smelt_weights_open(artifact, paths.data(), paths.size(), &weights, &error);
  weights_handle.reset(weights);
  check(bound, error);
}

smelt_artifact_info RuntimeModel::info() const {
  smelt_artifact_info info;
  smelt_artifact_get_info(artifact(), &info);
  return info;
}

std::vector<std::string> RuntimeModel::supportedIsas() const {
  std::vector<std::string> names;
  smelt_variant_info variant;
  for (uint32_t index = 0; smelt_artifact_get_variant(artifact(), index, &variant); ++index) {
    if (variant.supported) {
      names.emplace_back(variant.isa);
    }
  }
  return names;
}

RuntimeSession::RuntimeSession(const RuntimeModel &model, const SessionSettings &settings)
    : handle(nullptr, smelt_session_destroy), vocab(model.info().vocab_size) {
  smelt_session_options options;
  smelt_session_options_init(&options);
  options.sequences = settings.sequences;
  options.capacity = settings.capacity;
  options.threads = settings.threads;
  options.min_shared_nanoseconds = 0; // small models must not make every thread but one idle
  if (settings.max_step_tokens) {
    options.max_step_tokens = settings.max_step_tokens;
  }
  options.max_logit_rows = options.max_step_tokens;
  options.isa = settings.isa.empty() ? nullptr : settings.isa.c_str();
  options.gemm = settings.gemm.empty() ? nullptr : settings.gemm.c_str();
  options.device = settings.device.empty() ? nullptr : settings.device.c_str();
  char *error = nullptr;
  smelt_session *session = nullptr;
  const smelt_status status =
      smelt_session_create(model.artifact(), model.weights(), &options, &session, &error);
  handle.reset(session);
  check(status, error);
}

Logits RuntimeSession::append(const std::vector<int32_t> &tokens, int32_t sequence) {
  std::vector<PlacedToken> placed;
  for (const int32_t token : tokens) {
    placed.push_back({sequence, token});
  }
  return append(placed);
}

smelt_step stepOf(const std::vector<int32_t> &tokens, const std::vector<int32_t> &sequences,
                  const std::vector<int32_t> &logitRows) {
  smelt_step step = {};
  step.tokens = tokens.data();
  step.token_count = tokens.size();
  step.sequence_ids = sequences.data();
  step.logit_rows = logitRows.data();
  step.logit_row_count = logitRows.size();
  return step;
}

Logits RuntimeSession::append(const std::vector<PlacedToken> &placed) {
  std::vector<int32_t> tokens, sequences, rows(placed.size());
  for (const PlacedToken &item : placed) {
    tokens.push_back(item.token);
    sequences.push_back(item.sequence);
  }
  std::iota(rows.begin(), rows.end(), 0);
  const smelt_step step = stepOf(tokens, sequences, rows);
  Logits logits{vocab, std::vector<float>(rows.size() * vocab)};
  char *error = nullptr;
  const smelt_status status = smelt_session_forward(handle.get(), &step, logits.values.data(), &error);
  check(status, error);
  return logits;
}

void RuntimeSession::truncate(uint32_t sequence, uint32_t length) {
  char *error = nullptr;
  const smelt_status status = smelt_session_truncate(handle.get(), sequence, length, &error);
  check(status, error);
}

void RuntimeSession::recordRouting(std::vector<RoutingChoice> &choices, int64_t top_k) {
  *recorder = {&choices, top_k};
  smelt_session_set_probe(handle.get(), probe, recorder.get());
}

void RuntimeSession::probe(void *user, const smelt_probe *probe) {
  const auto *recorder = static_cast<const Recorder *>(user);
  const std::string_view role = probe->role;
  if ((role != "route" && role != "norm_route") || probe->dtype != SMELT_DTYPE_I32) {
    return;
  }
  const auto *indices = static_cast<const int32_t *>(probe->data);
  for (uint64_t row = 0; row < probe->rows; ++row) {
    const int32_t *first = indices + row * recorder->top_k;
    recorder->choices->push_back({probe->layer, probe->visit, probe->first_token + row,
                                  std::vector<int32_t>(first, first + recorder->top_k)});
  }
}

} // namespace smelt::tests
