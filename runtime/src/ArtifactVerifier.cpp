#include "runtime/src/ArtifactVerifier.h"

#include "runtime/src/ProgramTables.h"
#include "runtime/src/Quantize.h"
#include "smelt/artifact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace smelt::runtime {

using namespace artifact;

// Codes of one matrix; below it nothing overflows that has to do with scales and padding.
static constexpr uint64_t maxQuantBytes = uint64_t(1) << 56;

uint64_t tensorBytes(const Weight &weight) {
  uint64_t bytes = elementBytes(weight.dtype());
  if (weight.shape()->size() == 0) {
    return 0;
  }
  for (uint64_t dim : *weight.shape()) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return 0;
    }
  }
  if (weight.dtype() != DType::i8) {
    return bytes;
  }
  bool sound = weight.shape()->size() == 2 && bytes < maxQuantBytes;
  return sound ? bytes + 2 * weight.shape()->Get(0) * quantBlocks(weight.shape()->Get(1)) : 0;
}

uint64_t elementBytes(DType dtype) { return dtype == DType::i8 ? 1 : dtype == DType::bf16 ? 2 : 4; }

bool covers(const Size &have, const Size &need) {
  return have.bytes() >= need.bytes() && have.per_token() >= need.per_token() &&
         have.per_logit_row() >= need.per_logit_row() && have.per_position() >= need.per_position() &&
         have.per_kv_position() >= need.per_kv_position();
}

std::string formatSize(const Size &size) {
  std::string out = std::to_string(size.bytes());
  auto append = [&](uint64_t factor, const char *unit) {
    if (factor) {
      out += fmt::format(" + {}*{}", factor, unit);
    }
  };
  append(size.per_token(), "T");
  append(size.per_logit_row(), "R");
  append(size.per_position(), "C");
  append(size.per_kv_position(), "S*C");
  return out;
}

namespace {

bool isWeightType(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::i8; }

void verifyWeights(const Manifest &manifest, ProblemList &problems) {
  uint64_t tensors = 0, bytes = 0;
  std::map<std::string_view, std::vector<std::pair<uint64_t, uint64_t>>> ranges; // layers by name
  for (uint32_t i = 0; i < manifest.weights()->size(); ++i) {
    const Weight &weight = *manifest.weights()->Get(i);
    std::string_view name = weight.name()->string_view();
    auto report = [&](const std::string &what) {
      problems.add(fmt::format("weight {} '{}': {}", i, printable(name), what));
    };
    if (name.empty()) {
      report("has no name");
    }
    if (!isWeightType(weight.dtype())) {
      report(fmt::format("has dtype {}; weights are f32 (0), bf16 (1) or i8 (3)", int(weight.dtype())));
    }
    if (weight.dtype() == DType::i8 && weight.layout() != WeightLayout::panel16) {
      report("is i8, which only matrices of layout panel16 are");
    }
    if (weight.layout() > WeightLayout::panel16) {
      report(fmt::format("has layout {}, which this runtime does not know", int(weight.layout())));
    } else if (weight.layout() == WeightLayout::panel16 && weight.shape()->size() != 2) {
      report(fmt::format("has layout panel16, which is for matrices, but the shape {}",
                         formatShape({weight.shape()->data(), weight.shape()->size()})));
    }
    if ((name.find("{layer}") != name.npos) != (weight.layers() > 0)) {
      report(fmt::format("has {} layers, but its name has {}", weight.layers(),
                         weight.layers() ? "no {layer}" : "a {layer}"));
    }
    if ((name.find("{expert}") != name.npos) != (weight.experts() > 0)) {
      report(fmt::format("has {} experts, but its name has {}", weight.experts(),
                         weight.experts() ? "no {expert}" : "an {expert}"));
    }
    uint64_t each = tensorBytes(weight);
    if (each == 0 || weight.shape()->size() > 4) {
      report(fmt::format("has the shape {}", formatShape({weight.shape()->data(), weight.shape()->size()})));
    }
    uint64_t count =
        uint64_t(std::max<uint32_t>(weight.layers(), 1)) * std::max<uint32_t>(weight.experts(), 1);
    uint64_t all = 0;
    if (count > maxTensors || (tensors += count) > maxTensors) {
      report(fmt::format("makes more than {} tensors", maxTensors));
      return;
    }
    if (__builtin_mul_overflow(each, count, &all) || __builtin_add_overflow(bytes, all, &bytes)) {
      report("makes the size of all weights overflow");
      return;
    }
    uint64_t first = weight.first_layer();
    for (const auto &[otherFirst, otherEnd] : ranges[name]) {
      if (first < otherEnd && otherFirst < first + std::max<uint32_t>(weight.layers(), 1)) {
        report("is declared twice");
        break;
      }
    }
    ranges[name].push_back({first, first + std::max<uint32_t>(weight.layers(), 1)});
  }
}

// What a buffer of each kind the runtime fills or reads must offer it.
void verifyInterfaceBuffer(uint32_t vocabSize, const Buffer &buffer, const auto &report) {
  const Size &size = *buffer.size();
  auto want = [&](DType dtype, const char *dtypeName, const Size &need) {
    if (buffer.dtype() != dtype) {
      report(fmt::format("must be {}", dtypeName));
    }
    if (!covers(size, need)) {
      report(fmt::format("has {} bytes, needs at least {}", formatSize(size), formatSize(need)));
    }
  };
  switch (buffer.kind()) {
  case BufferKind::token_ids:
  case BufferKind::positions:
  case BufferKind::sequence_ids:
    return want(DType::i32, "i32", Size(0, 4, 0, 0, 0));
  case BufferKind::logit_rows:
    return want(DType::i32, "i32", Size(0, 0, 4, 0, 0));
  case BufferKind::logits:
    return want(DType::f32, "f32", Size(0, 0, uint64_t(4) * vocabSize, 0, 0));
  case BufferKind::draws:
    return want(DType::i32, "i32", Size(0, 0, sizeof(smelt_draw), 0, 0));
  case BufferKind::sampled:
    return want(DType::i32, "i32", Size(0, 0, 4, 0, 0));
  case BufferKind::rope_table:
    if (buffer.rope_dim() == 0 || buffer.rope_dim() % 2 || buffer.rope_dim() > 1 << 16) {
      report(fmt::format("has rope_dim {}, which must be even and in 2..65536", buffer.rope_dim()));
    }
    if (!std::isfinite(buffer.rope_theta()) || buffer.rope_theta() <= 0) {
      report(fmt::format("has rope_theta {}, which must be positive", buffer.rope_theta()));
    }
    return want(DType::f32, "f32", Size(0, 0, 0, uint64_t(4) * buffer.rope_dim(), 0));
  case BufferKind::state:
    if (size.per_token() || size.per_logit_row()) {
      report(fmt::format("is state, but its size {} depends on the step", formatSize(size)));
    }
    return;
  case BufferKind::workspace:
    return;
  }
}

void verifyBuffers(const ProgramTables &tables, const std::string &where, ProblemList &problems) {
  std::map<BufferKind, int> kinds;
  for (uint32_t i = 0; i < tables.buffers.size(); ++i) {
    const Buffer &buffer = *tables.buffers.Get(i);
    auto report = [&](const std::string &what) {
      problems.add(
          fmt::format("{}buffer {} '{}': {}", where, i, printable(buffer.name()->string_view()), what));
    };
    if (buffer.name()->size() == 0) {
      report("has no name");
    }
    if (buffer.kind() > BufferKind::MAX || buffer.dtype() > DType::i32) {
      report(fmt::format("has kind {} and dtype {}, which this runtime does not know", int(buffer.kind()),
                         int(buffer.dtype())));
      continue;
    }
    ++kinds[buffer.kind()];
    uint64_t slots = buffer.slots();
    if (buffer.kind() == BufferKind::state ? slots < 1 || slots > maxSlots : slots != 1) {
      report(fmt::format("has {} slots; state has 1..{}, other buffers have 1", slots, maxSlots));
    }
    verifyInterfaceBuffer(tables.vocabSize, buffer, report);
  }
  auto count = [&](BufferKind kind, int least) {
    if (kinds[kind] < least || kinds[kind] > 1) {
      problems.add(fmt::format("{}there are {} buffers of kind {}, expected {}", where, kinds[kind],
                               EnumNameBufferKind(kind), least ? "1" : "at most 1"));
    }
  };
  count(BufferKind::token_ids, 1);
  count(BufferKind::positions, 0);
  count(BufferKind::sequence_ids, 0);
  count(BufferKind::logit_rows, 0);
  count(BufferKind::logits, 1);
  count(BufferKind::draws, 0);
  count(BufferKind::sampled, 0);
}

void verifyKernels(const ProgramTables &tables, const std::string &where, ProblemList &problems) {
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < tables.kernels.size(); ++i) {
    const Kernel &kernel = *tables.kernels.Get(i);
    auto report = [&](const std::string &what) {
      problems.add(
          fmt::format("{}kernel {} '{}': {}", where, i, printable(kernel.name()->string_view()), what));
    };
    if (kernel.name()->size() == 0 || kernel.role()->size() == 0) {
      report("has no name or no role");
    }
    if (!names.insert(kernel.name()->string_view()).second) {
      report("is declared twice");
    }
    if (kernel.bindings()->size() > maxBindings || kernel.constants() > maxConstants) {
      report(fmt::format("has {} bindings and {} constants; at most {} and {}", kernel.bindings()->size(),
                         kernel.constants(), maxBindings, maxConstants));
    }
    if (kernel.scratch_bytes() > maxScratchBytes) {
      report(fmt::format("wants {} scratch bytes per worker; at most {}", kernel.scratch_bytes(),
                         maxScratchBytes));
    }
    if (kernel.rows_per_token() == 0) {
      report("has 0 rows per token");
    }
    for (uint32_t b = 0; b < kernel.bindings()->size(); ++b) {
      if (kernel.bindings()->Get(b)->access() > Access::MAX) {
        report(fmt::format("binding {} has access {}, which this runtime does not know", b,
                           int(kernel.bindings()->Get(b)->access())));
      }
    }
  }
}

void verifyVariants(const Manifest &manifest, uint64_t codeSize, ProblemList &problems) {
  std::set<std::string_view> names;
  bool onDevices = manifest.devices() && manifest.devices()->size() > 0;
  if (manifest.variants()->size() == 0 && !onDevices) {
    problems.add("there is no code variant and no device target");
  }
  for (uint32_t i = 0; i < manifest.variants()->size(); ++i) {
    const CodeVariant &variant = *manifest.variants()->Get(i);
    auto report = [&](const std::string &what) {
      problems.add(fmt::format("code variant {} '{}': {}", i, printable(variant.isa()->string_view()), what));
    };
    if (variant.isa()->size() == 0 || !names.insert(variant.isa()->string_view()).second) {
      report("has no name, or that of another");
    }
    if (variant.offset() % SMELT_ARTIFACT_CODE_ALIGNMENT) {
      report(fmt::format("starts at {}, which is not a multiple of {}", variant.offset(),
                         SMELT_ARTIFACT_CODE_ALIGNMENT));
    }
    if (variant.offset() > codeSize || variant.size() > codeSize - variant.offset() || variant.size() == 0) {
      report(fmt::format("is at [{}, +{}) of {} bytes of code", variant.offset(), variant.size(), codeSize));
    }
    if (variant.entries()->size() != manifest.kernels()->size()) {
      report(fmt::format("has {} entries for {} kernels", variant.entries()->size(),
                         manifest.kernels()->size()));
    }
    for (uint32_t e = 0; e < variant.entries()->size(); ++e) {
      if (variant.entries()->Get(e) >= variant.size()) {
        report(fmt::format("entry {} is at {} of {} bytes", e, variant.entries()->Get(e), variant.size()));
      }
    }
  }
}

} // namespace

void verifyProgramTables(const ProgramTables &tables, const std::string &where, ProblemList &problems) {
  verifyBuffers(tables, where, problems);
  verifyKernels(tables, where, problems);
}

ProblemList verifyManifest(const Manifest &manifest, std::span<const std::byte> code) {
  ProblemList problems;
  if (manifest.vocab_size() == 0 || manifest.vocab_size() > INT32_MAX) {
    problems.add(fmt::format("vocab_size is {}", manifest.vocab_size()));
  }
  if (!isWeightType(manifest.weights_dtype())) {
    problems.add(fmt::format("weights_dtype is {}; f32 (0), bf16 (1) or i8 (3) expected",
                             int(manifest.weights_dtype())));
  }
  verifyWeights(manifest, problems);
  bool soundWeights = problems.empty();
  ProgramTables tables(manifest);
  verifyProgramTables(tables, "", problems);
  verifyVariants(manifest, code.size(), problems);
  if (problems.empty()) {
    verifyProgram(tables, "", problems);
  }
  if (soundWeights) {
    verifyDevices(manifest, code, problems);
  }
  return problems;
}

} // namespace smelt::runtime
