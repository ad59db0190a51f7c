#include "runtime/tools/smelt-run/RunModel.h"

#include "runtime/src/Text.h"
#include "runtime/tools/smelt-run/StopSignal.h"

#include <cstdio>
#include <unistd.h>

namespace smelt::runtime {
namespace {

// Takes over the message a C function allocated.
Status take(smelt_status code, char *error) {
  Status status = code == SMELT_ok ? success() : fail(code, error ? error : smelt_status_text(code));
  smelt_error_free(error);
  return status;
}

int showProgress(void *terminal, uint64_t done, uint64_t total) {
  if (*static_cast<bool *>(terminal)) {
    std::fprintf(stderr, "\rweights: %s of %s", formatBytes(done).c_str(), formatBytes(total).c_str());
    if (done == total) {
      std::fputs("\r\033[K", stderr);
    }
  }
  return StopSignal::requested();
}

void showNotice(void *program, const char *text) {
  std::fprintf(stderr, "%s: note: %s\n", static_cast<const char *>(program), text);
}

} // namespace

Status RunModel::openArtifact(const std::string &path) {
  char *error = nullptr;
  smelt_artifact *opened = nullptr;
  smelt_status code = smelt_artifact_open(path.c_str(), &opened, &error);
  artifact.reset(opened);
  if (opened) {
    smelt_artifact_get_info(opened, &info);
  }
  return take(code, error);
}

Status RunModel::openWeights(const std::vector<std::string> &paths) {
  std::vector<const char *> names;
  for (const std::string &path : paths) {
    names.push_back(path.c_str());
  }
  char *error = nullptr;
  smelt_weights *opened = nullptr;
  smelt_status code = smelt_weights_open(artifact.get(), names.data(), names.size(), &opened, &error);
  weights.reset(opened);
  return take(code, error);
}

Status RunModel::preload() {
  smelt_memory memory;
  smelt_session_get_memory(session.get(), &memory);
  if (memory.packed_weights > 0) {
    return success(); // packing has read them, or a cache is mapped
  }
  if (smelt_weights_bytes(weights.get()) > smelt_available_memory()) {
    return success(); // reading ahead would only push out what was read before
  }
  char *error = nullptr;
  bool terminal = isatty(STDERR_FILENO);
  smelt_status code = smelt_weights_preload(weights.get(), showProgress, &terminal, &error);
  return take(code, error);
}

Status RunModel::createSession(smelt_session_options options, const std::string &program) {
  bool terminal = isatty(STDERR_FILENO);
  options.progress = showProgress;
  options.progress_user = &terminal;
  options.notice = showNotice;
  options.notice_user = const_cast<char *>(program.c_str());
  char *error = nullptr;
  smelt_session *created = nullptr;
  smelt_status code = smelt_session_create(artifact.get(), weights.get(), &options, &created, &error);
  session.reset(created);
  return take(code, error);
}

Status RunModel::sample(const smelt_step &step, const smelt_sampling &sampling, int32_t *tokens) {
  char *error = nullptr;
  smelt_status code = smelt_session_sample(session.get(), &step, &sampling, nullptr, 0, tokens, &error);
  return take(code, error);
}

Status RunModel::generate(const smelt_generation &generation) {
  char *error = nullptr;
  smelt_status code = smelt_session_generate(session.get(), &generation, &error);
  return take(code, error);
}

Status RunModel::forward(const smelt_step &step, float *logits) {
  char *error = nullptr;
  smelt_status code = smelt_session_forward(session.get(), &step, logits, &error);
  return take(code, error);
}

} // namespace smelt::runtime
