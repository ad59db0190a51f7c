#include "compiler/Export/Export.h"

#include "compiler/Import/HuggingFace.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/SpecValidator.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace smelt;
using exporting::exportSpec;
using exporting::Format;

namespace {

spec::ModelSpec readSpec(const std::string &name) {
  const spec::SpecResult result =
      spec::readSpecFile(std::string(SMELT_SOURCE_DIR) + "/specs/" + name + ".toml");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  return *result.spec;
}

spec::ModelSpec baseline() { return readSpec("smelt/baseline-100m-s85"); }
spec::ModelSpec looped() { return readSpec("smelt/smelt-100m-s85"); }

spec::ModelSpec withAttention(spec::ModelSpec spec, const spec::Attention &attention) {
  spec.attention = attention;
  for (spec::Segment &segment : spec.segments) {
    segment.attention = attention;
  }
  REQUIRE(spec::validate(spec).empty());
  return spec;
}

spec::ModelSpec withQkNorm(spec::ModelSpec spec, spec::QkNorm norm) {
  spec::Attention attention = spec.attention;
  attention.qk_norm = norm;
  return withAttention(std::move(spec), attention);
}

spec::ModelSpec denseModel(spec::QkNorm norm, bool bias) {
  spec::ModelSpec spec = baseline();
  spec.moe.reset();
  spec.mlp = spec::Mlp{.hidden_size = 1792};
  for (spec::Segment &segment : spec.segments) {
    segment.ffn = spec::FfnKind::dense;
  }
  spec::Attention attention = spec.attention;
  attention.qk_norm = norm;
  attention.qkv_bias = bias;
  return withAttention(std::move(spec), attention);
}

std::string text(const spec::ModelSpec &spec, Format format) {
  const exporting::ExportResult result = exportSpec(spec, format);
  INFO(result.error);
  REQUIRE(result);
  return *result.text;
}

bool contains(const std::string &text, const std::string &part) {
  INFO(text);
  INFO(part);
  return text.find(part) != std::string::npos;
}

// Exported and read again, it is the same model.
void checkRoundTrip(const spec::ModelSpec &spec, const std::string &type) {
  CAPTURE(type);
  const std::string config = text(spec, Format::huggingface);
  CHECK(nlohmann::json::parse(config)["model_type"] == type);
  const hf::ModelResult model = hf::parseConfig(config, "config.json", spec.name);
  INFO(model.diagnostics.text());
  REQUIRE(model);
  const hf::SpecConversion conversion = hf::toSpec(*model.model);
  for (const std::string &reason : conversion.inexpressible) {
    UNSCOPED_INFO(reason);
  }
  REQUIRE(conversion.spec);
  CHECK(*conversion.spec == spec);
}

} // namespace

TEST_CASE("formats have names") {
  for (const Format format : {Format::huggingface, Format::megatron, Format::torchtitan}) {
    CHECK(exporting::parseFormat(exporting::formatName(format)) == format);
  }
  CHECK_FALSE(exporting::parseFormat("keras"));
}

TEST_CASE("models without loops come back from Hugging Face configs") {
  checkRoundTrip(baseline(), "mixtral");
  checkRoundTrip(withQkNorm(baseline(), spec::QkNorm::per_head), "qwen3_moe");
  checkRoundTrip(withQkNorm(baseline(), spec::QkNorm::full_width), "olmoe");
  checkRoundTrip(denseModel(spec::QkNorm::none, false), "llama");
  checkRoundTrip(denseModel(spec::QkNorm::none, true), "qwen2");
  checkRoundTrip(denseModel(spec::QkNorm::per_head, false), "qwen3");
  spec::ModelSpec mixed = withQkNorm(baseline(), spec::QkNorm::per_head);
  mixed.mlp = spec::Mlp{.hidden_size = 1792};
  mixed.moe->renormalize = false;
  mixed.segments = {mixed.segments[0], mixed.segments[0]};
  mixed.segments[0].layers = 2;
  mixed.segments[0].ffn = spec::FfnKind::dense;
  mixed.segments[1].layers = 8;
  checkRoundTrip(mixed, "qwen3_moe");
}

TEST_CASE("models that no Hugging Face family computes are refused") {
  const auto error = [](spec::ModelSpec spec) {
    const exporting::ExportResult result = exportSpec(spec, Format::huggingface);
    CHECK_FALSE(result);
    CHECK(result.status == SMELT_unsupported);
    return result.error;
  };
  spec::ModelSpec spec = baseline();
  spec.moe->renormalize = false;
  CHECK(contains(error(spec), "Mixtral renormalizes"));
  spec = baseline();
  spec.moe->router = spec::RouterKind::sigmoid;
  CHECK(contains(error(spec), "sigmoid router"));
  spec = baseline();
  spec.moe->shared_experts = 1;
  spec.moe->shared_expert_hidden_size = 544;
  CHECK(contains(error(spec), "shared experts"));
}

TEST_CASE("a looped model does not pass for one without a loop") {
  const nlohmann::json config = nlohmann::json::parse(text(looped(), Format::huggingface));
  CHECK(config["model_type"] == "smelt_looped");
  CHECK(config["base_model_type"] == "mixtral");
  CHECK_FALSE(config.contains("architectures"));
  CHECK(config["segments"].size() == 3);
  CHECK(config["segments"][1]["visits"] == 2);
  CHECK(config["segments"][1]["residual_scale"] == 0.5);
  CHECK(config["_not_expressed"][0] == "layers 2 to 6 run 2 times, one after the other and then again, with "
                                       "the same weights and a KV cache for each run");
  for (const Format format : {Format::megatron, Format::torchtitan}) {
    CHECK(contains(text(looped(), format), "# - layers 2 to 6 run 2 times"));
    CHECK(contains(text(looped(), format), "# - layers 2 to 6 add 0.5 of the output"));
  }
}

TEST_CASE("heads of segments of their own are told") {
  spec::ModelSpec spec = looped();
  spec.segments[1].attention.kv_heads = 2;
  for (const Format format : {Format::huggingface, Format::megatron, Format::torchtitan}) {
    CHECK(contains(text(spec, format), "layers 2 to 6 have KV heads 2"));
  }
}

TEST_CASE("Megatron-LM arguments say what a spec says") {
  CHECK(text(baseline(), Format::megatron) ==
        "# baseline-100m-s85: the model arguments of Megatron-LM's pretraining scripts.\n"
        "--num-layers 10\n--hidden-size 672\n--ffn-hidden-size 544\n--swiglu\n--normalization RMSNorm\n"
        "--norm-epsilon 1e-06\n--num-attention-heads 12\n--group-query-attention\n--num-query-groups 4\n"
        "--kv-channels 56\n--position-embedding-type rope\n--rotary-base 10000\n--disable-bias-linear\n"
        "--num-experts 64\n--moe-router-topk 8\n--moe-ffn-hidden-size 544\n"
        "--moe-router-score-function softmax\n--untie-embeddings-and-output-weights\n--vocab-size 32768\n");
  spec::ModelSpec spec = withQkNorm(baseline(), spec::QkNorm::full_width);
  spec.moe->router = spec::RouterKind::sigmoid;
  spec.moe->renormalize = false;
  CHECK(contains(text(spec, Format::megatron), "# - queries and keys are normalized over their full width"));
  CHECK(contains(text(spec, Format::megatron), "# - the sigmoid weights"));
  spec.moe->router = spec::RouterKind::softmax;
  CHECK(contains(text(spec, Format::megatron), "--moe-router-pre-softmax\n"));
}

TEST_CASE("torchtitan fields say what a spec says") {
  const std::string toml = text(withQkNorm(baseline(), spec::QkNorm::per_head), Format::torchtitan);
  CHECK(contains(toml, "[model]\nname = \"qwen3\"\nflavor = \"baseline-100m-s85\"\n"));
  CHECK(contains(toml,
                 "[model_args]\ndim = 672\nn_layers = 10\nn_heads = 12\nn_kv_heads = 4\nhead_dim = 56\n"));
  CHECK(contains(toml, "num_experts = 64\nnum_shared_experts = 0\ntop_k = 8\n"));
  CHECK_FALSE(contains(toml, "NOT EXPRESSED"));
  CHECK(contains(text(baseline(), Format::torchtitan), "# - queries and keys are not normalized"));
}
