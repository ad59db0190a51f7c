#include "tests/runtime/ToyModel.h"

#include "smelt/artifact.h"
#include "tests/runtime/ToyKernels.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace smelt::tests {

using namespace artifact;

namespace {

constexpr float mixA = 0.75f, mixB = 0.125f;
constexpr uint64_t rowBytes = toyWidth * 4, vocabRowBytes = toyVocab * 4;

void addBuffer(ManifestT &manifest, const char *name, BufferKind kind, DType dtype, Size size,
               uint32_t slots = 1) {
  auto buffer = std::make_unique<BufferT>();
  buffer->name = name;
  buffer->kind = kind;
  buffer->dtype = dtype;
  buffer->size = std::make_unique<Size>(size);
  buffer->slots = slots;
  manifest.buffers.push_back(std::move(buffer));
}

void addWeight(ManifestT &manifest, const char *name, std::vector<uint64_t> shape, uint32_t layers,
               uint32_t experts) {
  auto weight = std::make_unique<WeightT>();
  weight->name = name;
  weight->shape = std::move(shape);
  weight->layers = layers;
  weight->experts = experts;
  manifest.weights.push_back(std::move(weight));
}

void addKernel(ManifestT &manifest, const char *name, const char *role, uint32_t constants,
               std::vector<std::pair<Access, Size>> bindings) {
  auto kernel = std::make_unique<KernelT>();
  kernel->name = name;
  kernel->role = role;
  kernel->constants = constants;
  kernel->flops_per_row = 10;
  for (const auto &[access, size] : bindings) {
    auto binding = std::make_unique<KernelBindingT>();
    binding->access = access;
    binding->size = std::make_unique<Size>(size);
    kernel->bindings.push_back(std::move(binding));
  }
  manifest.kernels.push_back(std::move(kernel));
}

void addCall(BlockT &block, uint32_t kernel, std::vector<Binding> bindings, std::vector<Constant> constants) {
  auto call = std::make_unique<CallT>();
  call->kernel = kernel;
  call->bindings = std::move(bindings);
  call->constants = std::move(constants);
  block.calls.push_back(std::move(call));
}

Constant immediate(int32_t value) { return {ConstantKind::immediate, value}; }
Constant immediate(float value) { return immediate(std::bit_cast<int32_t>(value)); }
Binding bufferBinding(uint32_t index) { return {BindingKind::buffer, index}; }

void addTables(ManifestT &manifest, const ToyShape &shape) {
  const Size ids(0, 4, 0, 0, 0), rows(0, 0, 4, 0, 0), x(0, rowBytes, 0, 0, 0), state(0, 0, 0, 0, rowBytes),
      logits(0, 0, vocabRowBytes, 0, 0), embedding(toyVocab * rowBytes, 0, 0, 0, 0),
      row(rowBytes, 0, 0, 0, 0);
  addBuffer(manifest, "token_ids", BufferKind::token_ids, DType::i32, ids);
  addBuffer(manifest, "positions", BufferKind::positions, DType::i32, ids);
  addBuffer(manifest, "sequence_ids", BufferKind::sequence_ids, DType::i32, ids);
  addBuffer(manifest, "logit_rows", BufferKind::logit_rows, DType::i32, rows);
  addBuffer(manifest, "x", BufferKind::workspace, DType::f32, x);
  addBuffer(manifest, "sums", BufferKind::state, DType::f32, state, shape.layers * shape.visits);
  addBuffer(manifest, "logits", BufferKind::logits, DType::f32, logits);

  addWeight(manifest, "model.embed_tokens.weight", {toyVocab, toyWidth}, 0, 0);
  addWeight(manifest, "model.layers.{layer}.scale.weight", {toyWidth}, shape.layers, 0);
  addWeight(manifest, "model.layers.{layer}.experts.{expert}.weight", {toyWidth}, shape.layers, toyExperts);

  addKernel(manifest, "toy_embed", "embed", 2,
            {{Access::read, ids}, {Access::read, embedding}, {Access::write, x}});
  addKernel(manifest, "toy_append", "append", 3,
            {{Access::read, x}, {Access::read, ids}, {Access::read, ids}, {Access::write, state}});
  addKernel(manifest, "toy_mix", "mix", 5,
            {{Access::read_write, x},
             {Access::read, ids},
             {Access::read, ids},
             {Access::read, state},
             {Access::read, row}});
  addKernel(manifest, "toy_experts", "experts", 3,
            {{Access::read_write, x}, {Access::read, ids}, {Access::read, row}});
  addKernel(manifest, "toy_head", "head", 3,
            {{Access::read, x}, {Access::read, rows}, {Access::read, embedding}, {Access::write, logits}});
}

void addProgram(ManifestT &manifest, const ToyShape &shape) {
  const Constant tokens(ConstantKind::token_count, 0), rows(ConstantKind::logit_row_count, 0),
      capacity(ConstantKind::kv_capacity, 0), width = immediate(toyWidth);
  auto first = std::make_unique<BlockT>(), loop = std::make_unique<BlockT>(),
       last = std::make_unique<BlockT>();
  addCall(*first, toy::embed,
          {bufferBinding(toy::tokenIds), {BindingKind::weight, toy::embedding}, bufferBinding(toy::x)},
          {tokens, width});
  loop->layers = shape.layers;
  loop->visits = shape.visits;
  loop->order = shape.order;
  addCall(*loop, toy::append,
          {bufferBinding(toy::x),
           bufferBinding(toy::positions),
           bufferBinding(toy::sequenceIds),
           {BindingKind::state_slot, toy::state}},
          {tokens, width, capacity});
  addCall(*loop, toy::mix,
          {bufferBinding(toy::x),
           bufferBinding(toy::positions),
           bufferBinding(toy::sequenceIds),
           {BindingKind::state_slot, toy::state},
           {BindingKind::weight, toy::scale}},
          {tokens, width, capacity, immediate(mixA), immediate(mixB)});
  addCall(*loop, toy::experts,
          {bufferBinding(toy::x), bufferBinding(toy::tokenIds), {BindingKind::weight_table, toy::expert}},
          {tokens, width, immediate(toyExperts)});
  addCall(*last, toy::head,
          {bufferBinding(toy::x),
           bufferBinding(toy::logitRows),
           {BindingKind::weight, toy::embedding},
           bufferBinding(toy::logits)},
          {rows, width, immediate(toyVocab)});
  manifest.blocks.push_back(std::move(first));
  manifest.blocks.push_back(std::move(loop));
  manifest.blocks.push_back(std::move(last));
}

std::string floats(const std::vector<float> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float)};
}

} // namespace

ManifestT toyManifest(const ToyShape &shape) {
  ManifestT manifest;
  manifest.producer = "smeltc 0.1.0";
  manifest.target = "cpu";
  manifest.model_name = "toy";
  manifest.spec_toml = "[model]\nname = \"toy\"\n";
  manifest.vocab_size = toyVocab;
  auto budget = std::make_unique<BudgetT>();
  budget->name = "total_params";
  budget->value = 123;
  manifest.budgets.push_back(std::move(budget));
  addTables(manifest, shape);
  addProgram(manifest, shape);
  auto variant = std::make_unique<CodeVariantT>();
  variant->isa = "x86-64";
  variant->size = toyCode().size();
  for (smelt_kernel_fn kernel : {toy_embed, toy_append, toy_mix, toy_experts, toy_head}) {
    variant->entries.push_back(toyEntry(reinterpret_cast<const void *>(kernel)));
  }
  manifest.variants.push_back(std::move(variant));
  return manifest;
}

std::string_view toyCode() { return {__start_toy_kernels, size_t(__stop_toy_kernels - __start_toy_kernels)}; }

uint32_t toyEntry(const void *kernel) {
  return uint32_t(static_cast<const char *>(kernel) - __start_toy_kernels);
}

std::string packArtifact(const ManifestT &manifest, std::string_view code) {
  flatbuffers::FlatBufferBuilder builder;
  FinishManifestBuffer(builder, Manifest::Pack(builder, &manifest));
  smelt_artifact_header header = {};
  std::memcpy(header.magic, SMELT_ARTIFACT_MAGIC, sizeof header.magic);
  header.version_major = SMELT_ARTIFACT_VERSION_MAJOR;
  header.version_minor = SMELT_ARTIFACT_VERSION_MINOR;
  header.manifest_offset = sizeof header;
  header.manifest_size = builder.GetSize();
  uint64_t end = header.manifest_offset + header.manifest_size;
  header.code_offset = (end + SMELT_ARTIFACT_CODE_ALIGNMENT - 1) / SMELT_ARTIFACT_CODE_ALIGNMENT *
                       SMELT_ARTIFACT_CODE_ALIGNMENT;
  header.code_size = code.size();
  header.file_size = header.code_offset + header.code_size;
  std::string out(reinterpret_cast<const char *>(&header), sizeof header);
  out.append(reinterpret_cast<const char *>(builder.GetBufferPointer()), builder.GetSize());
  out.resize(header.code_offset);
  out += code;
  fixChecksum(out);
  return out;
}

void fixChecksum(std::string &artifact) {
  uint64_t checksum = XXH3_64bits(artifact.data() + SMELT_ARTIFACT_CHECKSUM_BEGIN,
                                  artifact.size() - SMELT_ARTIFACT_CHECKSUM_BEGIN);
  std::memcpy(artifact.data() + offsetof(smelt_artifact_header, checksum), &checksum, sizeof checksum);
}

ToyWeights toyWeights(const ToyShape &shape) {
  ToyWeights weights;
  uint32_t state = 12345;
  auto fill = [&](size_t count, float low, float high) {
    std::vector<float> values(count);
    for (float &value : values) {
      state = state * 1664525 + 1013904223;
      value = low + (high - low) * float(state >> 8) / float(1 << 24);
    }
    return values;
  };
  weights.embedding = fill(toyVocab * toyWidth, -1, 1);
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    weights.scale.push_back(fill(toyWidth, 0.5f, 1.5f));
    weights.expert.emplace_back();
    for (int expert = 0; expert < toyExperts; ++expert) {
      weights.expert.back().push_back(fill(toyWidth, -0.25f, 0.25f));
    }
  }
  return weights;
}

std::vector<RawTensor> toyTensors(const ToyWeights &weights) {
  std::vector<RawTensor> tensors = {
      {"model.embed_tokens.weight", "F32", {toyVocab, toyWidth}, floats(weights.embedding)}};
  for (size_t layer = 0; layer < weights.scale.size(); ++layer) {
    std::string prefix = "model.layers." + std::to_string(layer);
    tensors.push_back({prefix + ".scale.weight", "F32", {toyWidth}, floats(weights.scale[layer])});
    for (size_t expert = 0; expert < weights.expert[layer].size(); ++expert) {
      tensors.push_back({prefix + ".experts." + std::to_string(expert) + ".weight",
                         "F32",
                         {toyWidth},
                         floats(weights.expert[layer][expert])});
    }
  }
  return tensors;
}

std::string packSafetensors(const std::vector<RawTensor> &tensors) {
  std::ostringstream json;
  std::string data;
  json << "{\"__metadata__\":{\"format\":\"pt\"}";
  for (const RawTensor &tensor : tensors) {
    json << ",\"" << tensor.name << "\":{\"dtype\":\"" << tensor.dtype << "\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      json << (i ? "," : "") << tensor.shape[i];
    }
    json << "],\"data_offsets\":[" << data.size() << "," << data.size() + tensor.bytes.size() << "]}";
    data += tensor.bytes;
  }
  json << "}";
  std::string header = json.str();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof length) + header + data;
}

std::string toySafetensors(const ToyWeights &weights) { return packSafetensors(toyTensors(weights)); }

std::vector<float> toyReference(const ToyWeights &weights, const ToyShape &shape,
                                std::span<const int32_t> tokens) {
  size_t count = tokens.size();
  std::vector<float> x(count * toyWidth);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = weights.embedding[size_t(tokens[i / toyWidth]) * toyWidth + i % toyWidth];
  }
  auto runLayer = [&](size_t layer) {
    std::vector<float> state = x;
    for (size_t i = 0; i < x.size(); ++i) {
      size_t h = i % toyWidth;
      float sum = state[h];
      for (size_t p = 1; p <= i / toyWidth; ++p) {
        sum += state[p * toyWidth + h];
      }
      x[i] = mixA * weights.scale[layer][h] * x[i] + mixB * sum;
      x[i] += weights.expert[layer][size_t(tokens[i / toyWidth]) % toyExperts][h];
    }
  };
  bool blockOrder = shape.order == VisitOrder::block;
  for (uint32_t i = 0; i < (blockOrder ? shape.visits : shape.layers); ++i) {
    for (uint32_t j = 0; j < (blockOrder ? shape.layers : shape.visits); ++j) {
      runLayer(blockOrder ? j : i);
    }
  }
  std::vector<float> logits;
  for (size_t t = 0; t < count; ++t) {
    for (size_t v = 0; v < toyVocab; ++v) {
      float sum = weights.embedding[v * toyWidth] * x[t * toyWidth];
      for (size_t h = 1; h < toyWidth; ++h) {
        sum += weights.embedding[v * toyWidth + h] * x[t * toyWidth + h];
      }
      logits.push_back(sum);
    }
  }
  return logits;
}

AlignedBytes::AlignedBytes(std::span<const std::byte> bytes) : size(bytes.size()) {
  void *memory = nullptr;
  if (posix_memalign(&memory, 64, std::max<size_t>(size, 1)) != 0) {
    throw std::bad_alloc();
  }
  data.reset(static_cast<std::byte *>(memory));
  std::copy(bytes.begin(), bytes.end(), data.get());
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "smelt-test-XXXXXX";
  if (!mkdtemp(pattern.data())) {
    throw std::runtime_error("no temporary folder");
  }
  folder = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

std::string TemporaryFolder::write(const std::string &name, std::string_view bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

size_t TemporaryFolder::count() const {
  return size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace smelt::tests
