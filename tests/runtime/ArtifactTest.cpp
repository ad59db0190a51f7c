// What the loader says about artifacts that are not sound: one case per check.
#include "smelt/artifact.h"
#include "runtime/src/Artifact.h"
#include "runtime/src/CodeImage.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <functional>

using namespace smelt::tests;
using namespace smelt::runtime;
using namespace smelt::artifact;
using Catch::Matchers::Contains;

namespace {

Status parse(const std::string &file) {
  AlignedBytes bytes(std::as_bytes(std::span(file)));
  auto artifact = Artifact::parse("m.smelt", bytes.bytes());
  return artifact.ok() ? success() : artifact.takeStatus();
}

std::string toyFile() { return packArtifact(toyManifest(), toyCode()); }

template <typename T> void patch(std::string &file, size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof value);
}

struct Case {
  const char *name;
  std::function<void(ManifestT &)> change;
  std::vector<const char *> message;
};

void expectRefused(const std::vector<Case> &cases) {
  for (const Case &test : cases) {
    INFO(test.name);
    ManifestT manifest = toyManifest();
    test.change(manifest);
    Status status = parse(packArtifact(manifest, toyCode()));
    CHECK(status.code == SMELT_artifact);
    for (const char *part : test.message) {
      CHECK_THAT(status.message, Contains(part));
    }
  }
}

} // namespace

TEST_CASE("A sound artifact is accepted") { CHECK(parse(toyFile()).message == ""); }

TEST_CASE("The header is checked in the order magic, version, size, checksum") {
  std::string file = toyFile();
  SECTION("too short") {
    CHECK_THAT(parse(file.substr(0, 63)).message, Contains("it has 63 bytes, the header alone has 64"));
  }
  SECTION("magic") {
    patch(file, 0, 'X');
    patch(file, offsetof(smelt_artifact_header, version_major), 9u);
    CHECK_THAT(parse(file).message, Contains("starts with 'XMELTART', not 'SMELTART'"));
  }
  SECTION("newer major version") {
    patch(file, offsetof(smelt_artifact_header, version_major), 2u);
    patch(file, offsetof(smelt_artifact_header, version_minor), 7u);
    CHECK_THAT(parse(file + "x").message,
               Contains("artifact format 2.7, but this runtime reads 1.x; use a newer runtime"));
  }
  SECTION("older major version") {
    patch(file, offsetof(smelt_artifact_header, version_major), 0u);
    patch(file, offsetof(smelt_artifact_header, version_minor), 4u);
    CHECK_THAT(parse(file).message, Contains("artifact format 0.4") && Contains("compile the model again"));
  }
  SECTION("a newer minor version is read") {
    patch(file, offsetof(smelt_artifact_header, version_minor), 9u);
    CHECK(parse(file).ok());
  }
  SECTION("truncated") {
    std::string cut = file.substr(0, file.size() - 1);
    CHECK_THAT(parse(cut).message, Contains("truncated: the header says " + std::to_string(file.size()) +
                                            " bytes, the file has " + std::to_string(cut.size())));
  }
  SECTION("too long") { CHECK_THAT(parse(file + "x").message, Contains("too long")); }
  SECTION("checksum") {
    file.back() ^= 1;
    CHECK_THAT(parse(file).message, Contains("damaged: checksum"));
  }
  SECTION("manifest outside the file") {
    patch(file, offsetof(smelt_artifact_header, manifest_offset), uint64_t(1) << 40);
    fixChecksum(file);
    CHECK_THAT(parse(file).message, Contains("the manifest is said to be at [1099511627776,"));
  }
  SECTION("manifest size overflows") {
    patch(file, offsetof(smelt_artifact_header, manifest_size), UINT64_MAX);
    fixChecksum(file);
    CHECK_THAT(parse(file).message, Contains("the manifest is said to be at"));
  }
  SECTION("misaligned code") {
    patch(file, offsetof(smelt_artifact_header, code_offset), uint64_t(64));
    fixChecksum(file);
    CHECK_THAT(parse(file).message, Contains("the code is said to be at [64,"));
  }
  SECTION("no FlatBuffer") {
    patch(file, sizeof(smelt_artifact_header), uint64_t(-1));
    fixChecksum(file);
    CHECK_THAT(parse(file).message, Contains("not a well-formed FlatBuffer"));
  }
}

TEST_CASE("A file that cannot be read is an io error") {
  TemporaryFolder folder;
  CHECK(Artifact::open(folder.path("none")).status().code == SMELT_io);
  CHECK_THAT(Artifact::open(folder.path("none")).status().message, Contains("No such file or directory"));
  CHECK_THAT(Artifact::open(folder.path("")).status().message, Contains("is a folder, not a regular file"));
  CHECK(Artifact::open(folder.write("empty", "")).status().code == SMELT_artifact);
}

TEST_CASE("A variant that needs a slow feature comes after the others, unless it is named") {
  TemporaryFolder folder;
  auto manifest = toyManifest();
  auto fast = std::make_unique<CodeVariantT>(*manifest.variants.front());
  fast->isa = "x86-64-v4+bf16";
  fast->features = SMELT_CPU_AVX512_BF16;
  manifest.variants.insert(manifest.variants.begin(), std::move(fast));
  auto artifact = Artifact::open(folder.write("m.smelt", packArtifact(manifest, toyCode())));
  REQUIRE(artifact.ok());
  constexpr uint64_t all = ~uint64_t(0), slow = SMELT_CPU_AVX512_BF16;
  CHECK(*CodeImage::choose(**artifact, nullptr, all) == 0);
  CHECK(*CodeImage::choose(**artifact, nullptr, all, slow) == 1);
  CHECK(*CodeImage::choose(**artifact, "x86-64-v4+bf16", all, slow) == 0);
  manifest.variants.resize(1);
  auto alone = Artifact::open(folder.write("alone.smelt", packArtifact(manifest, toyCode())));
  REQUIRE(alone.ok());
  CHECK(*CodeImage::choose(**alone, nullptr, all, slow) == 0);
}

TEST_CASE("Weights are verified") {
  auto weight = [](ManifestT &manifest) -> WeightT & { return *manifest.weights[toy::scale]; };
  expectRefused({
      {"no name", [&](auto &m) { m.weights[0]->name = ""; }, {"weight 0 ''", "has no name"}},
      {"dtype",
       [&](auto &m) { weight(m).dtype = DType::i32; },
       {"has dtype 2; weights are f32 (0), bf16 (1) or i8 (3)"}},
      {"i8 of a vector",
       [&](auto &m) { weight(m).dtype = DType::i8; },
       {"is i8, which only matrices of layout panel16 are", "has the shape [4]"}},
      {"i8 as the file has it",
       [&](auto &m) {
         weight(m).dtype = DType::i8;
         weight(m).shape = {16, 64};
       },
       {"is i8, which only matrices of layout panel16 are"}},
      {"i8 that is too large",
       [&](auto &m) {
         weight(m).dtype = DType::i8;
         weight(m).layout = WeightLayout::panel16;
         weight(m).shape = {1ull << 31, 1ull << 31};
       },
       {"has the shape [2147483648, 2147483648]"}},
      {"layout", [&](auto &m) { weight(m).layout = WeightLayout(7); }, {"has layout 7"}},
      {"panels of a vector",
       [&](auto &m) {
         weight(m).layout = WeightLayout::panel16;
         weight(m).shape = {4};
       },
       {"has layout panel16, which is for matrices, but the shape [4]"}},
      {"layers without {layer}",
       [&](auto &m) { weight(m).name = "scale"; },
       {"has 3 layers, but its name has no {layer}"}},
      {"{expert} without experts",
       [&](auto &m) { m.weights[toy::expert]->experts = 0; },
       {"has 0 experts, but its name has an {expert}"}},
      {"empty shape", [&](auto &m) { weight(m).shape.clear(); }, {"has the shape []"}},
      {"zero dimension", [&](auto &m) { weight(m).shape = {4, 0}; }, {"has the shape [4, 0]"}},
      {"overflowing shape",
       [&](auto &m) { weight(m).shape = {1ull << 40, 1ull << 40}; },
       {"has the shape [1099511627776,"}},
      {"too many tensors",
       [&](auto &m) { weight(m).layers = UINT32_MAX; },
       {"makes more than 4194304 tensors"}},
      {"overflowing total",
       [&](auto &m) { weight(m).shape = {1ull << 61}; },
       {"makes the size of all weights overflow"}},
      {"declared twice",
       [&](auto &m) {
         m.weights.push_back(std::make_unique<WeightT>(weight(m)));
         m.weights.back()->first_layer = 2;
       },
       {"weight 3 'model.layers.{layer}.scale.weight': is declared twice"}},
  });
}

TEST_CASE("Buffers are verified") {
  expectRefused({
      {"no name", [](auto &m) { m.buffers[toy::x]->name = ""; }, {"buffer 4 ''", "has no name"}},
      {"kind", [](auto &m) { m.buffers[toy::x]->kind = BufferKind(20); }, {"has kind 20"}},
      {"i8", [](auto &m) { m.buffers[toy::x]->dtype = DType::i8; }, {"has kind 0 and dtype 3"}},
      {"dtype", [](auto &m) { m.buffers[toy::x]->dtype = DType(9); }, {"dtype 9"}},
      {"state without slots", [](auto &m) { m.buffers[toy::state]->slots = 0; }, {"'sums': has 0 slots"}},
      {"workspace with slots", [](auto &m) { m.buffers[toy::x]->slots = 2; }, {"'x': has 2 slots"}},
      {"input dtype",
       [](auto &m) { m.buffers[toy::tokenIds]->dtype = DType::f32; },
       {"'token_ids': must be i32"}},
      {"input size",
       [](auto &m) { m.buffers[toy::positions]->size = std::make_unique<Size>(64, 2, 0, 0, 0); },
       {"'positions': has 64 + 2*T bytes, needs at least 0 + 4*T"}},
      {"logits size",
       [](auto &m) { m.buffers[toy::logits]->size = std::make_unique<Size>(0, 0, 40, 0, 0); },
       {"'logits': has 0 + 40*R bytes, needs at least 0 + 44*R"}},
      {"state per token",
       [](auto &m) { m.buffers[toy::state]->size = std::make_unique<Size>(0, 4, 0, 0, 16); },
       {"'sums': is state, but its size 0 + 4*T + 16*S*C depends on the step"}},
      {"rope table",
       [](auto &m) {
         m.buffers.push_back(std::make_unique<BufferT>(*m.buffers[toy::x]));
         m.buffers.back()->kind = BufferKind::rope_table;
         m.buffers.back()->rope_dim = 3;
         m.buffers.back()->rope_theta = -1;
       },
       {"has rope_dim 3, which must be even", "has rope_theta -1", "needs at least 0 + 12*C"}},
      {"two logits",
       [](auto &m) { m.buffers.push_back(std::make_unique<BufferT>(*m.buffers[toy::logits])); },
       {"there are 2 buffers of kind logits, expected 1"}},
      {"no token ids",
       [](auto &m) { m.buffers[toy::tokenIds]->kind = BufferKind::positions; },
       {"there are 0 buffers of kind token_ids, expected 1",
        "there are 2 buffers of kind positions, expected at most 1"}},
  });
}

TEST_CASE("Kernels and code variants are verified") {
  expectRefused({
      {"role", [](auto &m) { m.kernels[0]->role = ""; }, {"kernel 0 'toy_embed': has no name or no role"}},
      {"name twice",
       [](auto &m) { m.kernels[1]->name = "toy_embed"; },
       {"kernel 1 'toy_embed': is declared twice"}},
      {"constants",
       [](auto &m) { m.kernels[0]->constants = 1000; },
       {"has 3 bindings and 1000 constants; at most 64 and 64"}},
      {"scratch",
       [](auto &m) { m.kernels[0]->scratch_bytes = 1ull << 40; },
       {"wants 1099511627776 scratch bytes"}},
      {"rows", [](auto &m) { m.kernels[0]->rows_per_token = 0; }, {"has 0 rows per token"}},
      {"access", [](auto &m) { m.kernels[0]->bindings[2]->access = Access(3); }, {"binding 2 has access 3"}},
      {"no variant", [](auto &m) { m.variants.clear(); }, {"there is no code variant and no device target"}},
      {"variant twice",
       [](auto &m) { m.variants.push_back(std::make_unique<CodeVariantT>(*m.variants[0])); },
       {"code variant 1 'x86-64': has no name, or that of another"}},
      {"variant alignment",
       [](auto &m) { m.variants[0]->offset = 16; },
       {"starts at 16, which is not a multiple of 4096"}},
      {"variant size", [](auto &m) { m.variants[0]->size += 1; }, {"code variant 0 'x86-64': is at [0, +"}},
      {"variant size overflow",
       [](auto &m) { m.variants[0]->size = UINT64_MAX; },
       {"code variant 0 'x86-64': is at [0, +"}},
      {"variant offset", [](auto &m) { m.variants[0]->offset = 1ull << 40; }, {"is at [1099511627776,"}},
      {"entries", [](auto &m) { m.variants[0]->entries.pop_back(); }, {"has 4 entries for 5 kernels"}},
      {"entry", [](auto &m) { m.variants[0]->entries[1] = UINT32_MAX; }, {"entry 1 is at 4294967295 of"}},
      {"vocabulary", [](auto &m) { m.vocab_size = 0; }, {"vocab_size is 0"}},
      {"weights dtype", [](auto &m) { m.weights_dtype = DType::i32; }, {"weights_dtype is 2"}},
  });
}

TEST_CASE("Blocks are verified") {
  expectRefused({
      {"no program", [](auto &m) { m.blocks.clear(); }, {"the step program is empty"}},
      {"visits", [](auto &m) { m.blocks[1]->visits = 0; }, {"block 1: has 0 visits"}},
      {"order", [](auto &m) { m.blocks[1]->order = VisitOrder(5); }, {"block 1: has visit order 5"}},
      {"visits outside layers",
       [](auto &m) { m.blocks[0]->visits = 2; },
       {"block 0: has no layers, but 2 visits"}},
      {"no calls", [](auto &m) { m.blocks[0]->calls.clear(); }, {"block 0: has no calls"}},
      {"too many calls",
       [](auto &m) { m.blocks[1]->visits = UINT32_MAX; },
       {"the step program makes more than 1048576 calls"}},
  });
}

TEST_CASE("Calls are verified") {
  auto mix = [](ManifestT &m) -> CallT & { return *m.blocks[1]->calls[toy::mix - 1]; };
  auto head = [](ManifestT &m) -> CallT & { return *m.blocks[2]->calls[0]; };
  expectRefused({
      {"kernel", [&](auto &m) { mix(m).kernel = 5; }, {"block 1 call 1: kernel 5 of 5"}},
      {"binding count",
       [&](auto &m) { mix(m).bindings.pop_back(); },
       {"block 1 call 1: 4 bindings for kernel 'toy_mix', which has 5"}},
      {"constant count",
       [&](auto &m) { mix(m).constants.pop_back(); },
       {"4 constants for kernel 'toy_mix', which has 5"}},
      {"constant kind",
       [&](auto &m) { mix(m).constants[0] = Constant(ConstantKind(9), 0); },
       {"constant 0 has kind 9"}},
      {"binding kind",
       [&](auto &m) { mix(m).bindings[0] = Binding(BindingKind(9), 0); },
       {"binding 0 of kernel 'toy_mix' has kind 9"}},
      {"buffer index",
       [&](auto &m) { mix(m).bindings[0] = Binding(BindingKind::buffer, 7); },
       {"binding 0 of kernel 'toy_mix' is buffer 7 of 7"}},
      {"read too early",
       [&](auto &m) { m.kernels[toy::embed]->bindings[2]->access = Access::read; },
       {"block 0 call 0: binding 2 of kernel 'toy_embed' reads buffer 'x', which nothing has written yet",
        "block 1 call 0: binding 0 of kernel 'toy_append' reads buffer 'x'"}},
      {"state as buffer",
       [&](auto &m) { mix(m).bindings[0] = Binding(BindingKind::buffer, toy::state); },
       {"is all of state buffer 'sums'"}},
      {"slot of workspace",
       [&](auto &m) { mix(m).bindings[3] = Binding(BindingKind::state_slot, toy::x); },
       {"is a state slot of buffer 'x', which is not state"}},
      {"writes an input",
       [&](auto &m) { mix(m).bindings[0] = Binding(BindingKind::buffer, toy::tokenIds); },
       {"writes buffer 'token_ids', which is token_ids",
        "may touch 0 + 16*T bytes, buffer 'token_ids' has 0 + 4*T"}},
      {"slots",
       [&](auto &m) { m.buffers[toy::state]->slots = 5; },
       {"uses slots [0, +6) of buffer 'sums', which has 5"}},
      {"slot base", [&](auto &m) { m.blocks[1]->slot_base = UINT32_MAX; }, {"uses slots [4294967295, +6)"}},
      {"weight index",
       [&](auto &m) { mix(m).bindings[4] = Binding(BindingKind::weight, 3); },
       {"is weight 3 of 3"}},
      {"one of experts",
       [&](auto &m) { mix(m).bindings[4] = Binding(BindingKind::weight, toy::expert); },
       {"is one tensor of weight 'model.layers.{layer}.experts.{expert}.weight', which has 2 experts"}},
      {"table of one",
       [&](auto &m) { mix(m).bindings[4] = Binding(BindingKind::weight_table, toy::scale); },
       {"which has no experts"}},
      {"writes a weight",
       [&](auto &m) { m.kernels[toy::mix]->bindings[4]->access = Access::write; },
       {"writes weight"}},
      {"weight too small",
       [&](auto &m) { m.weights[toy::scale]->shape = {3}; },
       {"may touch 16 bytes, a tensor of weight 'model.layers.{layer}.scale.weight' has 12"}},
      {"weight size per token",
       [&](auto &m) { m.kernels[toy::mix]->bindings[4]->size = std::make_unique<Size>(0, 4, 0, 0, 0); },
       {"may touch 0 + 4*T bytes, a tensor of weight"}},
      {"layers outside the weight",
       [&](auto &m) { m.weights[toy::scale]->first_layer = 1; },
       {"of layers [1, 4), the block runs layers [0, 3)"}},
      {"layer weight outside layers",
       [&](auto &m) { head(m).bindings[2] = Binding(BindingKind::weight, toy::scale); },
       {"of layers [0, 3), the block runs layers [0, 0)"}},
  });
}

TEST_CASE("All problems are listed, up to a limit") {
  ManifestT manifest = toyManifest();
  for (int i = 0; i < 30; ++i) {
    manifest.kernels[0]->bindings.push_back(
        std::make_unique<KernelBindingT>(*manifest.kernels[0]->bindings[0]));
    manifest.kernels[0]->bindings.back()->access = Access(9);
  }
  manifest.vocab_size = 0;
  std::string message = parse(packArtifact(manifest, toyCode())).message;
  CHECK_THAT(message, Contains("written by 'smeltc 0.1.0' is inconsistent (31 problems):"));
  CHECK_THAT(message, Contains("vocab_size is 0") && Contains("binding 3 has access 9") &&
                          Contains("\n  and 11 more"));
}
