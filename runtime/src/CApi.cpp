#include "runtime/schema/manifest_generated.h"
#include "runtime/src/CpuFeatures.h"
#include "runtime/src/Handles.h"
#include "runtime/src/Sampler.h"

#include <cstdlib>
#include <cstring>
#include <new>

using namespace smelt::runtime;

namespace smelt::runtime {

smelt_status report(const Status &status, char **error) {
  if (error) {
    *error = status.ok() ? nullptr : strdup(status.message.c_str());
  }
  return status.code;
}

Status caught() {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return fail(SMELT_memory, "out of memory");
  } catch (const std::exception &exception) {
    return fail(SMELT_internal, exception.what());
  }
}

} // namespace smelt::runtime

// ---- artifacts and weights

smelt_status smelt_artifact_open(const char *path, smelt_artifact **artifact, char **error) {
  *artifact = nullptr;
  return report(guard([&]() -> Status {
                  Result<std::shared_ptr<const Artifact>> result = Artifact::open(path);
                  if (!result.ok()) {
                    return result.takeStatus();
                  }
                  const smelt::artifact::Manifest &manifest = (*result)->manifest();
                  std::vector<uint32_t> calls(manifest.kernels()->size());
                  for (const smelt::artifact::Block *block : *manifest.blocks()) {
                    for (const smelt::artifact::Call *call : *block->calls()) {
                      calls[call->kernel()] += std::max<uint32_t>(block->layers(), 1) * block->visits();
                    }
                  }
                  *artifact = new smelt_artifact{std::move(*result), std::move(calls)};
                  return success();
                }),
                error);
}

void smelt_artifact_close(smelt_artifact *artifact) { delete artifact; }

smelt_status smelt_weights_open(const smelt_artifact *artifact, const char *const *paths, size_t path_count,
                                smelt_weights **weights, char **error) {
  *weights = nullptr;
  return report(guard([&]() -> Status {
                  std::vector<std::string> names(paths, paths + path_count);
                  auto result = BoundWeights::bind(artifact->artifact, names);
                  if (!result.ok()) {
                    return result.takeStatus();
                  }
                  *weights = new smelt_weights{std::move(*result)};
                  return success();
                }),
                error);
}

void smelt_weights_close(smelt_weights *weights) { delete weights; }

uint64_t smelt_weights_bytes(const smelt_weights *weights) { return weights->weights->bytes(); }

uint64_t smelt_weights_unquantized(const smelt_weights *weights) { return weights->weights->unquantized(); }

smelt_status smelt_weights_preload(smelt_weights *weights, smelt_progress_fn progress, void *user,
                                   char **error) {
  return report(guard([&] {
                  return weights->weights->preload([&](uint64_t done, uint64_t total) {
                    return !progress || progress(user, done, total) == 0;
                  });
                }),
                error);
}

// ---- sessions

smelt_status smelt_memory_needed(const smelt_artifact *artifact, const smelt_session_options *options,
                                 smelt_memory *memory, char **error) {
  *memory = {};
  return report(guard([&]() -> Status {
                  Result<smelt_memory> needed = memoryNeeded(*artifact->artifact, *options);
                  if (needed.ok()) {
                    *memory = *needed;
                  }
                  return needed.ok() ? success() : needed.takeStatus();
                }),
                error);
}

smelt_status smelt_session_create(const smelt_artifact *artifact, const smelt_weights *weights,
                                  const smelt_session_options *options, smelt_session **session,
                                  char **error) {
  *session = nullptr;
  return report(guard([&]() -> Status {
                  auto result = Session::create(artifact->artifact, weights->weights, *options);
                  if (!result.ok()) {
                    return result.takeStatus();
                  }
                  *session = new smelt_session{std::move(*result), {}};
                  return success();
                }),
                error);
}

void smelt_session_destroy(smelt_session *session) { delete session; }

void smelt_session_get_options(const smelt_session *session, smelt_session_options *options) {
  *options = session->session->options();
}

void smelt_session_get_memory(const smelt_session *session, smelt_memory *memory) {
  *memory = session->session->memory();
}

const char *smelt_session_gemm(smelt_session *session) {
  session->gemm = session->session->steps().gemm();
  return session->gemm.c_str();
}

smelt_status smelt_session_forward(smelt_session *session, const smelt_step *step, float *logits,
                                   char **error) {
  return report(guard([&] { return session->session->forward(*step, logits); }), error);
}

smelt_status smelt_session_sample(smelt_session *session, const smelt_step *step,
                                  const smelt_sampling *sampling, const uint64_t *streams, uint64_t draw_step,
                                  int32_t *tokens, char **error) {
  return report(guard([&] { return session->session->sample(*step, *sampling, streams, draw_step, tokens); }),
                error);
}

smelt_status smelt_session_generate(smelt_session *session, const smelt_generation *generation,
                                    char **error) {
  return report(guard([&] { return session->session->generate(*generation); }), error);
}

uint32_t smelt_session_length(const smelt_session *session, uint32_t sequence) {
  return session->session->length(sequence);
}

smelt_status smelt_session_truncate(smelt_session *session, uint32_t sequence, uint32_t length,
                                    char **error) {
  return report(guard([&] { return session->session->truncate(sequence, length); }), error);
}

void smelt_session_interrupt(smelt_session *session) { session->session->steps().interrupt(); }

void smelt_session_set_probe(smelt_session *session, smelt_probe_fn probe, void *user) {
  session->session->steps().setProbe(probe, user);
}

bool smelt_session_get_profile(const smelt_session *session, uint32_t index, smelt_kernel_profile *profile) {
  const smelt_kernel_profile *kernel = session->session->steps().profile(index);
  if (kernel) {
    *profile = *kernel;
  }
  return kernel != nullptr;
}

void smelt_session_reset_profile(smelt_session *session) { session->session->steps().resetProfile(); }

// ---- sampling

smelt_status smelt_sample(const float *logits, uint32_t vocab_size, const smelt_sampling *sampling,
                          uint64_t stream, uint64_t step, int32_t *token, char **error) {
  return report(guard([&]() -> Status {
                  Result<int32_t> result = sample({logits, vocab_size}, *sampling, stream, step);
                  if (!result.ok()) {
                    return result.takeStatus();
                  }
                  *token = *result;
                  return success();
                }),
                error);
}
