#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/TomlScan.h"
#include "tests/compiler/Spec/SpecText.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <unistd.h>

using namespace smelt::spec;
using smelt::tests::edited;
using smelt::tests::kFullSpec;

namespace {

std::string errorsOf(const std::string &text) {
  const SpecResult result = parseSpec(text, "a.toml");
  CHECK(result.spec.has_value() == result.diagnostics.empty());
  CHECK(result.status == (result ? SMELT_ok : SMELT_spec));
  return result.diagnostics.text();
}

std::string errorsOfEdit(const std::string &from, const std::string &to) {
  return errorsOf(edited(from, to));
}

constexpr const char *kMinimal = R"(model = { name = "m", vocab_size = 10, hidden_size = 8 }
attention = { query_heads = 2, kv_heads = 1, head_dim = 4 }
moe = { experts = 4, top_k = 2, expert_hidden_size = 8 }
segment = [ { layers = 2 }, { layers = 1, visits = 4 } ]
)";

} // namespace

TEST_CASE("every field is read") {
  const SpecResult result = parseSpec(kFullSpec, "a.toml");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  const ModelSpec &spec = *result.spec;
  CHECK(spec.name == "full");
  CHECK(spec.vocab_size == 100);
  CHECK(spec.hidden_size == 16);
  CHECK(spec.norm_eps == 1e-5);
  CHECK(spec.tie_embeddings);
  CHECK(spec.attention == Attention{6, 3, 12, 5e5, QkNorm::per_head, true});
  CHECK(spec.moe == Moe{5, 2, 8, RouterKind::sigmoid, false, 2, 7});
  CHECK(spec.mlp == Mlp{24});
  REQUIRE(spec.segments.size() == 2);
  CHECK(spec.segments[0] ==
        Segment{2, 3, VisitOrder::layer, 0.25, KvCachePolicy::per_visit, FfnKind::moe, spec.attention});
  CHECK(spec.segments[1] == Segment{1, 1, VisitOrder::block, 1.0, KvCachePolicy::per_visit, FfnKind::dense,
                                    Attention{4, 4, 8, 100.0, QkNorm::full_width, false}});
}

TEST_CASE("defaults, and inline tables") {
  const SpecResult result = parseSpec(kMinimal, "a.toml");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  const ModelSpec &spec = *result.spec;
  CHECK(spec.norm_eps == 1e-6);
  CHECK_FALSE(spec.tie_embeddings);
  CHECK(spec.attention == Attention{2, 1, 4, 10000.0, QkNorm::none, false});
  CHECK(spec.moe == Moe{4, 2, 8, RouterKind::softmax, true, 0, 0});
  CHECK_FALSE(spec.mlp);
  CHECK(spec.segments[0].residual_scale == 1.0);
  CHECK(spec.segments[1].residual_scale == 0.25);
  CHECK(spec.segments[1].ffn == FfnKind::moe);
  CHECK(spec.physicalLayers() == 3);
  CHECK(spec.executedLayers() == 6);
  CHECK(spec.firstLayer(1) == 2);
  CHECK(spec.firstKvSlot(1) == 2);
}

TEST_CASE("ffn is dense by default when there is only [mlp]") {
  std::string text = kMinimal;
  const size_t moe = text.find("moe");
  text.replace(moe, text.find('\n', moe) - moe, "mlp = { hidden_size = 12 }");
  const SpecResult result = parseSpec(text, "a.toml");
  INFO(result.diagnostics.text());
  REQUIRE(result);
  CHECK(result.spec->segments[0].ffn == FfnKind::dense);
}

TEST_CASE("a segment overrides any part of [attention]") {
  const SpecResult result =
      parseSpec(edited("query_heads = 4\nkv_heads = 4\nhead_dim = 8\nrope_theta = 100.0\n", ""), "a.toml");
  REQUIRE(result);
  CHECK(result.spec->segments[1].attention == Attention{6, 3, 12, 5e5, QkNorm::full_width, false});
}

TEST_CASE("syntax errors have a place") {
  CHECK(errorsOf("[model\n").find("a.toml:1:7: ") == 0);
  CHECK(errorsOf("a = 1\na = 2\n").find("a.toml:2:") == 0);
  CHECK(errorsOf(std::string("a = \"\xff\"")).find("a.toml:1:") == 0);
}

TEST_CASE("an empty spec lacks everything") {
  CHECK(errorsOf("") == "a.toml:1:1: the spec lacks a [[segment]]\n"
                        "a.toml:1:1: the spec lacks the table [attention]\n"
                        "a.toml:1:1: the spec lacks the table [model]\n"
                        "a.toml:1:1: the spec needs the table [moe], [mlp] or both\n");
}

TEST_CASE("unknown keys and tables come with a suggestion, and hide what they were meant to be") {
  CHECK(errorsOfEdit("head_dim = 12", "head_dims = 12") ==
        "a.toml:11:1: unknown key 'head_dims' in [attention]; did you mean 'head_dim'?\n");
  CHECK(errorsOfEdit("top_k = 2", "topk = 2") ==
        "a.toml:18:1: unknown key 'topk' in [moe]; did you mean 'top_k'?\n");
  CHECK(errorsOfEdit("vocab_size = 100", "vocab_size = 100\nexperts = 3") ==
        "a.toml:4:1: unknown key 'experts' in [model]; it belongs in [moe]\n");
  CHECK(errorsOfEdit("[mlp]", "[mpl]") == "a.toml:25:2: unknown table \"mpl\"; did you mean 'mlp'?\n");
  CHECK(errorsOfEdit("[model]", "visits = 2\n[model]") ==
        "a.toml:1:1: unknown key \"visits\"; it belongs in [[segment]]\n");
  CHECK(errorsOfEdit("[mlp]", "[loop]\n[mlp]") == "a.toml:25:2: unknown table \"loop\"\n");
  CHECK(errorsOfEdit("layers = 1", "layers = 1\nhead_dim = 6") ==
        "a.toml:38:1: unknown key 'head_dim' in [[segment]]; it belongs in [attention]\n");
  CHECK(errorsOfEdit("name = ", "\"na\\nme\" = 1\nname = ").find("unknown key 'na\\x0ame' in [model]") !=
        std::string::npos);
}

TEST_CASE("missing keys point at their table") {
  CHECK(errorsOfEdit("kv_heads = 3\n", "") ==
        "a.toml:8:2: [attention] lacks the key 'kv_heads' (an integer)\n");
  CHECK(errorsOfEdit("layers = 1\n", "")
            .find("a.toml:36:1: [[segment]] lacks the key 'layers' (an integer)\n") == 0);
}

TEST_CASE("values of the wrong type say what they are") {
  CHECK(errorsOfEdit("hidden_size = 16", "hidden_size = 16.0") ==
        "a.toml:4:15: 'hidden_size' in [model] must be an integer, not the number 16\n");
  CHECK(errorsOfEdit("hidden_size = 16", "hidden_size = [16]") ==
        "a.toml:4:15: 'hidden_size' in [model] must be an integer, not an array\n");
  CHECK(errorsOfEdit("name = \"full\"", "name = 1979-05-27") ==
        "a.toml:2:8: 'name' in [model] must be a string, not a date or time\n");
  CHECK(errorsOfEdit("norm_eps = 1e-5", "norm_eps = \"x\"") ==
        "a.toml:5:12: 'norm_eps' in [model] must be a number, not the string \"x\"\n");
  CHECK(errorsOfEdit("tie_embeddings = true", "tie_embeddings = 1") ==
        "a.toml:6:18: 'tie_embeddings' in [model] must be true or false, not the integer 1\n");
  CHECK(errorsOfEdit("router = \"sigmoid\"", "router = false") ==
        "a.toml:20:10: 'router' in [moe] must be one of 'softmax' or 'sigmoid', not the boolean false\n");
  CHECK(
      errorsOfEdit("router = \"sigmoid\"", "router = \"sigmod\"") ==
      "a.toml:20:10: 'router' in [moe] is \"sigmod\"; it must be one of 'softmax' or 'sigmoid'; did you mean "
      "'sigmoid'?\n");
  CHECK(errorsOfEdit("\"per_visit\"", "\"shared\"") ==
        "a.toml:33:12: 'kv_cache' in [[segment]] is \"shared\"; it must be "
        "'per_visit', the only choice so far\n");
  CHECK(errorsOfEdit("[mlp]\nhidden_size = 24", "[[mlp]]\nhidden_size = 24") ==
        "a.toml:25:3: 'mlp' must be a table, written [mlp], not an array\n");
  CHECK(errorsOf("segment = 3\n")
            .find("a.toml:1:1: 'segment' must be an array of tables, written [[segment]], not the "
                  "integer 3\n") != std::string::npos);
  CHECK(errorsOf("segment = [3]\n").find("every 'segment' must be a table, not the integer 3") !=
        std::string::npos);
}

TEST_CASE("integers serve as numbers") {
  const SpecResult result = parseSpec(edited("rope_theta = 5e5", "rope_theta = 500000"), "a.toml");
  REQUIRE(result);
  CHECK(result.spec->attention.rope_theta == 5e5);
}

TEST_CASE("all problems come in one go, in file order") {
  std::string text = edited("vocab_size = 100", "vocab_size = 0");
  const auto replace = [&](const std::string &from, const std::string &to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("kv_heads = 3", "kv_heads = 4");
  replace("router = \"sigmoid\"", "ruoter = \"sigmoid\"");
  replace("layers = 1", "layers = \"1\"");
  CHECK(errorsOf(text) == "a.toml:3:1: 'vocab_size' in [model] must be from 1 to 16777216, not 0\n"
                          "a.toml:9:1: 'query_heads' in [attention] = 6 is not a multiple of 'kv_heads' = 4: "
                          "every KV head serves the "
                          "same number of query heads\n"
                          "a.toml:20:1: unknown key 'ruoter' in [moe]; did you mean 'router'?\n"
                          "a.toml:37:10: 'layers' in [[segment]] must be an integer, not the string \"1\"\n");
}

TEST_CASE("a problem of [attention] is not repeated for the segments that inherit it") {
  CHECK(errorsOfEdit("head_dim = 12", "head_dim = 11") ==
        "a.toml:11:1: 'head_dim' in [attention] = 11 is odd: RoPE rotates pairs of elements\n");
  CHECK(errorsOfEdit("head_dim = 8", "head_dim = 7") ==
        "a.toml:42:1: 'head_dim' in [segment.attention] = 7 is odd: RoPE rotates pairs of elements\n");
}

TEST_CASE("hostile nesting and size are refused, not recursed into") {
  const std::string dots = "a" + [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) {
      text += ".a";
    }
    return text;
  }();
  CHECK(errorsOf(dots + " = 1") == "a.toml:1:130: more than 64 dots on one line\n");
  CHECK(errorsOf("[" + dots + "]") == "a.toml:1:131: more than 64 dots on one line\n");
  CHECK_FALSE(errorsOf("a = " + std::string(500000, '[')).empty());
  CHECK_FALSE(errorsOf("a = " + std::string(500000, '{')).empty());
  CHECK(errorsOf(std::string(kMaxTomlBytes + 1, '#')) ==
        "a.toml: the file has 1048577 bytes; a spec has at most 1048576\n");
  CHECK_FALSE(errorsOf("[model]\nname = \"" + std::string(100000, 'x') + "\"").empty());
}

TEST_CASE("raw control characters are refused") {
  CHECK(errorsOf(std::string("[model]\n[\0]", 11)) ==
        "a.toml:2:2: a raw control character, \\x00; a string may have it as an escape\n");
  CHECK(errorsOf("# \x1b") ==
        "a.toml:1:3: a raw control character, \\x1b; a string may have it as an escape\n");
}

TEST_CASE("characters beyond ASCII stay in strings and comments") {
  CHECK(parseSpec(edited("\"full\"", "\"modèle 模型\" # été"), "s").spec->name == "modèle 模型");
  CHECK(parseSpec(edited("\"full\"", "'modèle \"#' # '"), "s").spec->name == "modèle \"#");
  CHECK(parseSpec(edited("\"full\"", R"("a \" # b \\" # ")"), "s").spec->name == "a \" # b \\");
  CHECK(parseSpec("\xef\xbb\xbf" + std::string(kFullSpec), "s"));
  const std::string refused =
      "a character beyond ASCII; outside comments and strings after 'key =' write it as an escape\n";
  CHECK(errorsOf("# é\nmodèle = 1") == "a.toml:2:4: " + refused);
  CHECK(errorsOf("m = { name = \"é\" }") == "a.toml:1:15: " + refused);
  CHECK(errorsOf("a = [\nname=\"é\"]") == "a.toml:2:7: " + refused);
  CHECK(errorsOf("a = 0x=\"é\"") == "a.toml:1:9: " + refused);
  CHECK(errorsOf("a = \"\"\"x\"\"\"") == "a.toml:1:5: a multi-line string; a spec has none\n");
  CHECK(errorsOf("a = '''x'''") == "a.toml:1:5: a multi-line string; a spec has none\n");
}

TEST_CASE("dots in strings and comments are free") {
  const std::string dots(100, '.');
  CHECK(parseSpec(edited("\"full\"", "\"" + dots + "\" # " + dots), "s").spec->name == dots);
}

TEST_CASE("files that cannot be read are I/O errors") {
  const SpecResult missing = readSpecFile("/nonexistent/spec.toml");
  CHECK_FALSE(missing);
  CHECK(missing.status == SMELT_io);
  CHECK(missing.diagnostics.text() == "/nonexistent/spec.toml: cannot be read: No such file or directory\n");
  CHECK(readSpecFile("/").diagnostics.text() == "/: cannot be read: Is a directory\n");
}
