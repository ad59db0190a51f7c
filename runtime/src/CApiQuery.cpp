// The parts of the C API that only look things up and cannot fail.
#include "runtime/schema/manifest_generated.h"
#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/CpuFeatures.h"
#include "runtime/src/Handles.h"
#include "runtime/src/ProgramTables.h"
#include "runtime/src/SystemMemory.h"

#include <cstdlib>

using namespace smelt::runtime;
using smelt::artifact::Manifest;

void smelt_error_free(char *error) { std::free(error); }

const char *smelt_status_text(smelt_status status) {
  switch (status) {
#define SMELT_STATUS_CASE(name, code, text)                                                                  \
  case SMELT_##name:                                                                                         \
    return text;
    SMELT_STATUS_TABLE(SMELT_STATUS_CASE)
#undef SMELT_STATUS_CASE
  }
  return "unknown status";
}

const char *smelt_dtype_name(smelt_dtype dtype) {
  static constexpr const char *names[] = {"f32", "bf16", "i32", "i8"};
  return unsigned(dtype) < std::size(names) ? names[dtype] : "?";
}

uint64_t smelt_cpu_features(void) { return cpuFeatures(); }
const char *smelt_cpu_isa(void) { return isaName(cpuFeatures()); }
uint64_t smelt_available_memory(void) { return availableMemory(); }

void smelt_session_options_init(smelt_session_options *options) {
  *options = {};
  options->sequences = 1;
  options->capacity = 2048;
  options->max_step_tokens = 512;
  options->min_shared_nanoseconds = 1500;
}

void smelt_sampling_init(smelt_sampling *sampling) {
  *sampling = {.temperature = 0, .top_p = 1, .seed = 0, .top_k = 0};
}

void smelt_artifact_get_info(const smelt_artifact *artifact, smelt_artifact_info *info) {
  const Artifact &opened = *artifact->artifact;
  const Manifest &manifest = opened.manifest();
  smelt_artifact_header header = opened.header();
  *info = {};
  info->version_major = header.version_major;
  info->version_minor = header.version_minor;
  info->file_size = header.file_size;
  info->producer = manifest.producer()->c_str();
  info->target = manifest.target()->c_str();
  info->model_name = manifest.model_name()->c_str();
  info->spec_toml = manifest.spec_toml()->c_str();
  info->vocab_size = manifest.vocab_size();
  info->weights_dtype = smelt_dtype(manifest.weights_dtype());
  info->budget_count = manifest.budgets()->size();
  info->weight_count = manifest.weights()->size();
  info->buffer_count = manifest.buffers()->size();
  info->kernel_count = manifest.kernels()->size();
  info->block_count = manifest.blocks()->size();
  info->variant_count = manifest.variants()->size();
  for (const smelt::artifact::Weight *weight : *manifest.weights()) {
    uint64_t tensors =
        uint64_t(std::max<uint32_t>(weight->layers(), 1)) * std::max<uint32_t>(weight->experts(), 1);
    info->tensor_count += tensors;
    info->weight_bytes += tensors * tensorBytes(*weight);
  }
  info->calls_per_step = opened.launchesPerStep();
  info->code_size = header.code_size;
  info->device_count = manifest.devices() ? manifest.devices()->size() : 0;
}

bool smelt_artifact_get_budget(const smelt_artifact *artifact, uint32_t index, smelt_budget_info *info) {
  const auto &all = *artifact->artifact->manifest().budgets();
  if (index >= all.size()) {
    return false;
  }
  *info = {all.Get(index)->name()->c_str(), all.Get(index)->value()};
  return true;
}

bool smelt_artifact_get_weight(const smelt_artifact *artifact, uint32_t index, smelt_weight_info *info) {
  const auto &all = *artifact->artifact->manifest().weights();
  if (index >= all.size()) {
    return false;
  }
  const smelt::artifact::Weight &weight = *all.Get(index);
  *info = {};
  info->name = weight.name()->c_str();
  info->dtype = smelt_dtype(weight.dtype());
  info->shape = weight.shape()->data();
  info->rank = weight.shape()->size();
  info->first_layer = weight.first_layer();
  info->layers = weight.layers();
  info->experts = weight.experts();
  info->tensor_bytes = tensorBytes(weight);
  return true;
}

bool smelt_artifact_get_kernel(const smelt_artifact *artifact, uint32_t index, smelt_kernel_info *info) {
  const auto &all = *artifact->artifact->manifest().kernels();
  if (index >= all.size()) {
    return false;
  }
  *info = {};
  info->name = all.Get(index)->name()->c_str();
  info->role = all.Get(index)->role()->c_str();
  info->calls_per_step = artifact->callsPerStep[index];
  info->scratch_bytes = all.Get(index)->scratch_bytes();
  return true;
}

bool smelt_artifact_get_variant(const smelt_artifact *artifact, uint32_t index, smelt_variant_info *info) {
  const auto &all = *artifact->artifact->manifest().variants();
  if (index >= all.size()) {
    return false;
  }
  const smelt::artifact::CodeVariant &variant = *all.Get(index);
  *info = {};
  info->isa = variant.isa()->c_str();
  info->features = variant.features();
  info->size = variant.size();
  info->supported = (variant.features() & ~cpuFeatures()) == 0;
  return true;
}

bool smelt_artifact_get_device(const smelt_artifact *artifact, uint32_t index, smelt_device_info *info) {
  const Manifest &manifest = artifact->artifact->manifest();
  if (!manifest.devices() || index >= manifest.devices()->size()) {
    return false;
  }
  const smelt::artifact::DeviceTarget &target = *manifest.devices()->Get(index);
  *info = {};
  info->name = target.name()->c_str();
  info->compute_capability = target.compute_capability();
  info->exact = target.exact();
  for (const smelt::artifact::DeviceImage *image : *target.images()) {
    bool ptx = image->kind() == smelt::artifact::ImageKind::ptx;
    info->ptx = info->ptx || ptx;
    info->machine_code = info->machine_code || !ptx;
    info->size += image->size();
  }
  info->program_count = target.programs()->size();
  const smelt::artifact::DeviceProgram &program = *target.programs()->Get(0);
  forEachCall(ProgramTables(manifest, program), [&](const CallPlace &place) {
    bool draws = drawsTokens(*program.kernels()->Get(place.kernel)); // not beside argmax
    info->launches_per_step += draws ? 0 : program.device_kernels()->Get(place.kernel)->stages()->size();
  });
  return true;
}
