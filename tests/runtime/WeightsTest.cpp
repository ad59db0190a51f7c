// Binding of weight files to an artifact.
#include "runtime/src/WeightBinding.h"
#include "tests/runtime/ToyModel.h"

#include <catch2/catch.hpp>

#include <cstring>

using namespace smelt::tests;
using namespace smelt::runtime;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

struct Fixture {
  TemporaryFolder folder;
  std::vector<RawTensor> tensors = toyTensors(toyWeights());
  std::shared_ptr<const Artifact> artifact =
      *Artifact::open(folder.write("m.smelt", packArtifact(toyManifest(), toyCode())));

  Result<std::shared_ptr<const BoundWeights>> bind(const std::vector<std::string> &paths) {
    return BoundWeights::bind(artifact, paths);
  }
  Result<std::shared_ptr<const BoundWeights>> bindTensors() {
    return bind({folder.write("w.safetensors", packSafetensors(tensors))});
  }
  std::string refusal(smelt_status code = SMELT_weights) {
    auto bound = bindTensors();
    REQUIRE(!bound.ok());
    CHECK(bound.status().code == code);
    return bound.status().message;
  }
  RawTensor &find(const std::string &name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const RawTensor &tensor) { return tensor.name == name; });
  }
};

const std::string scaleName = "model.layers.1.scale.weight";

} // namespace

TEST_CASE_METHOD(Fixture, "Weights are mapped where the manifest wants them") {
  ToyWeights weights = toyWeights();
  auto bound = bindTensors();
  REQUIRE(bound.ok());
  auto equals = [](const void *tensor, const std::vector<float> &values) {
    return std::memcmp(tensor, values.data(), values.size() * sizeof(float)) == 0;
  };
  CHECK(equals((*bound)->tensor(toy::embedding, 0), weights.embedding));
  for (uint32_t layer = 0; layer < 3; ++layer) {
    CHECK(equals((*bound)->tensor(toy::scale, layer), weights.scale[layer]));
    for (size_t expert = 0; expert < 2; ++expert) {
      CHECK(equals((*bound)->table(toy::expert, layer)[expert], weights.expert[layer][expert]));
    }
  }
  CHECK((*bound)->bytes() == 4 * (11 * 4 + 3 * 4 + 6 * 4));
}

TEST_CASE_METHOD(Fixture, "Tensors that break element alignment are copied") {
  tensors.insert(tensors.begin(), {"model.odd", "U8", {1}, "x"});
  std::string file = packSafetensors(tensors);
  auto refused = bind({folder.write("odd.safetensors", file)});
  CHECK_THAT(refused.status().message, Contains("'model.odd' U8 [1]")); // extra, but nothing else is wrong
  tensors.erase(tensors.begin());
  file = packSafetensors(tensors);
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  ++length;
  std::memcpy(file.data(), &length, sizeof length);
  file.insert(8 + length - 1, " "); // one more blank after the JSON: all data is at odd addresses
  auto bound = bind({folder.write("shifted.safetensors", file)});
  REQUIRE(bound.ok());
  CHECK(reinterpret_cast<uintptr_t>((*bound)->tensor(toy::scale, 1)) % 64 == 0);
  CHECK(std::memcmp((*bound)->tensor(toy::scale, 1), toyWeights().scale[1].data(), 16) == 0);
}

TEST_CASE_METHOD(Fixture, "All mismatches are listed at once") {
  find(scaleName).name = "model.layers.9.scale.weight";
  find("model.layers.0.scale.weight").dtype = "I32";
  find("model.layers.2.scale.weight").shape = {2, 2};
  std::string message = refusal();
  CHECK_THAT(message, Contains("the weights do not fit model 'toy' of") && Contains("(4 mismatches):"));
  CHECK_THAT(message, Contains("missing:\n  'model.layers.1.scale.weight' F32 [4]"));
  CHECK_THAT(message, Contains("extra:\n  'model.layers.9.scale.weight' F32 [4]"));
  CHECK_THAT(message, Contains("dtype:\n  'model.layers.0.scale.weight' is I32, the model wants F32"));
  CHECK_THAT(message, Contains("shape:\n  'model.layers.2.scale.weight' is [2, 2], the model wants [4]"));
  CHECK_THAT(message, EndsWith("fix: convert the file"));
}

TEST_CASE_METHOD(Fixture, "A long list of mismatches is cut") {
  tensors = {{"x", "F32", {1}, "1234"}};
  std::string message = refusal();
  CHECK_THAT(message,
             Contains("(11 mismatches)") && Contains("missing:") && Contains("extra:\n  'x' F32 [1]"));
  for (int i = 0; i < 30; ++i) {
    tensors.push_back({"y" + std::to_string(i), "F32", {1}, "1234"});
  }
  CHECK_THAT(refusal(), Contains("\n  and 21 more"));
}

TEST_CASE_METHOD(Fixture, "A tied model may store its head if it equals the embedding") {
  RawTensor head = find("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  tensors.push_back(head);
  CHECK(bindTensors().ok());
  tensors.back().bytes[5] ^= 1;
  CHECK_THAT(refusal(),
             Contains("'lm_head.weight' F32 [11, 4], which differs from the embedding; set tie_embeddings"));
}

TEST_CASE_METHOD(Fixture, "Shards are found through an index, a folder, or by name") {
  std::vector<RawTensor> first(tensors.begin(), tensors.begin() + 4),
      second(tensors.begin() + 4, tensors.end());
  folder.write("a.safetensors", packSafetensors(first));
  folder.write("b.safetensors", packSafetensors(second));
  std::string index = "{\"metadata\":{},\"weight_map\":{";
  for (size_t i = 0; i < tensors.size(); ++i) {
    index += (i ? ",\"" : "\"") + tensors[i].name + (i < 4 ? "\":\"a.safetensors\"" : "\":\"b.safetensors\"");
  }
  std::string path = folder.write("model.safetensors.index.json", index + "}}");
  CHECK(bind({path}).ok());
  CHECK(bind({folder.path("")}).ok());
  CHECK(bind({folder.path("a.safetensors"), folder.path("b.safetensors")}).ok());
  CHECK(bind({path, folder.path("b.safetensors")}).ok()); // the same file again

  SECTION("an index that contradicts its shards") {
    index.replace(index.find("a.safetensors"), 1, "b");
    auto bound = bind({folder.write("model.safetensors.index.json", index + "}}")});
    CHECK_THAT(bound.status().message,
               Contains("contradicts its files") &&
                   Contains("'model.embed_tokens.weight' should be in b.safetensors, but is not") &&
                   Contains("is in a.safetensors, which the index does not say"));
  }
  SECTION("an index that leaves its folder") {
    auto bound = bind({folder.write("i.json", "{\"weight_map\":{\"x\":\"../a\"}}")});
    CHECK_THAT(bound.status().message, Contains("tensor 'x' should name a file in the same folder"));
  }
  SECTION("no index") {
    CHECK_THAT(bind({folder.write("i.json", "{")}).status().message, Contains("is not a safetensors index"));
    CHECK_THAT(bind({folder.write("i.json", "{\"weight_map\":[]}")}).status().message,
               Contains("weight_map"));
  }
  SECTION("the same tensor in two files") {
    folder.write("c.safetensors", packSafetensors(first));
    auto bound = bind({path, folder.path("c.safetensors")});
    CHECK_THAT(bound.status().message, Contains("in two files:\n  'model.embed_tokens.weight' in"));
  }
  SECTION("problems of several files") {
    auto bound = bind({folder.path("none"), folder.write("bad.safetensors", "bad")});
    CHECK(bound.status().code == SMELT_io);
    CHECK_THAT(bound.status().message,
               Contains("none: cannot be opened") && Contains("bad.safetensors: is not a usable"));
  }
}

TEST_CASE_METHOD(Fixture, "Preloading reports progress and can be stopped") {
  auto bound = bindTensors();
  REQUIRE(bound.ok());
  std::vector<std::pair<uint64_t, uint64_t>> seen;
  CHECK((*bound)
            ->preload([&](uint64_t done, uint64_t total) {
              seen.emplace_back(done, total);
              return true;
            })
            .ok());
  CHECK(seen.front().first == 0);
  CHECK(seen.back().first == seen.back().second);
  CHECK((*bound)->preload([](uint64_t, uint64_t) { return false; }).code == SMELT_interrupted);
  folder.write("w.safetensors", "cut"); // in place, so the mapping loses its pages
  CHECK_THAT((*bound)->preload({}).message, Contains("was cut short while in use: 3 of"));
}
