#include "compiler/Spec/SpecReader.h"

#include "compiler/Spec/SpecValidator.h"
#include "compiler/Spec/Suggest.h"
#include "compiler/Spec/TableReader.h"
#include "compiler/Spec/TomlScan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace smelt::spec {
namespace {

constexpr std::array<std::string_view, 5> kTables{"model", "attention", "moe", "mlp", "segment"};
constexpr std::array<std::string_view, 6> kAttentionKeys{"query_heads", "kv_heads", "head_dim",
                                                         "rope_theta",  "qk_norm",  "qkv_bias"};

// The table of every key that has one home, to point out keys in the wrong one.
const std::map<std::string_view, std::string_view> &homes() {
  static const std::map<std::string_view, std::string_view> map{
      {"vocab_size", "[model]"},
      {"norm_eps", "[model]"},
      {"tie_embeddings", "[model]"},
      {"query_heads", "[attention]"},
      {"kv_heads", "[attention]"},
      {"head_dim", "[attention]"},
      {"rope_theta", "[attention]"},
      {"qk_norm", "[attention]"},
      {"qkv_bias", "[attention]"},
      {"experts", "[moe]"},
      {"top_k", "[moe]"},
      {"expert_hidden_size", "[moe]"},
      {"router", "[moe]"},
      {"renormalize", "[moe]"},
      {"shared_experts", "[moe]"},
      {"shared_expert_hidden_size", "[moe]"},
      {"layers", "[[segment]]"},
      {"visits", "[[segment]]"},
      {"order", "[[segment]]"},
      {"residual_scale", "[[segment]]"},
      {"kv_cache", "[[segment]]"},
      {"ffn", "[[segment]]"},
  };
  return map;
}

// The table that a top-level key names or probably means.
std::string_view meantTable(std::string_view key) { return nearestWord(key, kTables); }

class Reader {
public:
  Reader(const TomlTable &document, Diagnostics &diagnostics)
      : document(document), diagnostics(diagnostics) {}

  ModelSpec read() {
    reportUnknownTables();
    readModel();
    readAttention();
    readMoe();
    readMlp();
    readSegments();
    reportBrokenRules();
    return std::move(spec);
  }

private:
  void reportUnknownTables() {
    for (const TomlEntry &entry : document.entries) {
      if (std::find(kTables.begin(), kTables.end(), entry.key) != kTables.end()) {
        continue;
      }
      const auto home = homes().find(entry.key);
      const std::string hint = home == homes().end() ? suggestion(entry.key, kTables)
                                                     : fmt::format("; it belongs in {}", home->second);
      diagnostics.add(entry.location,
                      fmt::format("unknown {} {}{}", entry.value.as<TomlTable>() ? "table" : "key",
                                  quoted(entry.key), hint));
      // Its absence under the right name is not a second problem.
      if (std::string_view meant = meantTable(entry.key); !meant.empty() && !document.find(meant)) {
        index.bad.insert(std::string(meant));
      }
    }
  }

  // The table of that name; a value of another kind is reported, and so is the absence of a required one.
  const TomlTable *topTable(const std::string &name, Presence presence) {
    const TomlEntry *entry = document.find(name);
    if (!entry) {
      if (presence == Presence::required && !index.isBad(name)) {
        diagnostics.add({1, 1}, fmt::format("the spec lacks the table [{}]", name));
        index.bad.insert(name);
      }
      return nullptr;
    }
    index.locations[name] = entry->location;
    if (const auto *table = entry->value.as<TomlTable>()) {
      return table;
    }
    diagnostics.add(entry->location, fmt::format("'{0}' must be a table, written [{0}], not {1}", name,
                                                 entry->value.describe()));
    index.bad.insert(name);
    return nullptr;
  }

  void readModel() {
    const TomlTable *table = topTable("model", Presence::required);
    if (!table) {
      return;
    }
    TableReader reader(*table, "[model]", "model", index, diagnostics);
    reader.read("name", spec.name, Presence::required);
    reader.read("vocab_size", spec.vocab_size, Presence::required);
    reader.read("hidden_size", spec.hidden_size, Presence::required);
    reader.read("norm_eps", spec.norm_eps, Presence::optional);
    reader.read("tie_embeddings", spec.tie_embeddings, Presence::optional);
    reader.finish(homes());
  }

  void readAttention() {
    if (const TomlTable *table = topTable("attention", Presence::required)) {
      TableReader reader(*table, "[attention]", "attention", index, diagnostics);
      readAttentionKeys(reader, spec.attention, Presence::required);
    }
  }

  // sizes: whether the three keys without a default must be there.
  void readAttentionKeys(TableReader &reader, Attention &out, Presence sizes) {
    reader.read("query_heads", out.query_heads, sizes);
    reader.read("kv_heads", out.kv_heads, sizes);
    reader.read("head_dim", out.head_dim, sizes);
    reader.read("rope_theta", out.rope_theta, Presence::optional);
    reader.readWord("qk_norm", out.qk_norm, Presence::optional);
    reader.read("qkv_bias", out.qkv_bias, Presence::optional);
    reader.finish(homes());
  }

  void readMoe() {
    const TomlTable *table = topTable("moe", Presence::optional);
    if (!table) {
      return;
    }
    Moe &moe = spec.moe.emplace();
    TableReader reader(*table, "[moe]", "moe", index, diagnostics);
    reader.read("experts", moe.experts, Presence::required);
    reader.read("top_k", moe.top_k, Presence::required);
    reader.read("expert_hidden_size", moe.expert_hidden_size, Presence::required);
    reader.readWord("router", moe.router, Presence::optional);
    reader.read("renormalize", moe.renormalize, Presence::optional);
    reader.read("shared_experts", moe.shared_experts, Presence::optional);
    reader.read("shared_expert_hidden_size", moe.shared_expert_hidden_size, Presence::optional);
    reader.finish(homes());
  }

  void readMlp() {
    if (const TomlTable *table = topTable("mlp", Presence::optional)) {
      TableReader reader(*table, "[mlp]", "mlp", index, diagnostics);
      reader.read("hidden_size", spec.mlp.emplace().hidden_size, Presence::required);
      reader.finish(homes());
    }
  }

  void readSegments() {
    const TomlEntry *entry = document.find("segment");
    if (!entry) {
      if (!index.isBad("segment")) {
        diagnostics.add({1, 1}, "the spec lacks a [[segment]]");
        index.bad.insert("segment");
      }
      return;
    }
    index.locations["segment"] = entry->location;
    const auto *array = entry->value.as<TomlArray>();
    if (!array) {
      diagnostics.add(entry->location,
                      fmt::format("'segment' must be an array of tables, written [[segment]], not {}",
                                  entry->value.describe()));
      index.bad.insert("segment");
      return;
    }
    for (const TomlValue &value : array->values) {
      const auto *table = value.as<TomlTable>();
      if (!table) {
        diagnostics.add(value.location,
                        fmt::format("every 'segment' must be a table, not {}", value.describe()));
        index.bad.insert("segment");
        return;
      }
      readSegment(*table, value.location, spec.segments.size());
    }
  }

  void readSegment(const TomlTable &table, Location location, size_t number) {
    const std::string path = fmt::format("segment[{}]", number);
    index.locations[path] = location;
    Segment &segment = spec.segments.emplace_back();
    segment.ffn = spec.moe || !spec.mlp ? FfnKind::moe : FfnKind::dense;
    segment.attention = spec.attention;
    TableReader reader(table, "[[segment]]", path, index, diagnostics);
    reader.read("layers", segment.layers, Presence::required);
    reader.read("visits", segment.visits, Presence::optional);
    reader.readWord("order", segment.order, Presence::optional);
    reader.readWord("kv_cache", segment.kv_cache, Presence::optional);
    if (!reader.readWord("ffn", segment.ffn, Presence::optional) && !spec.moe && index.isBad("moe")) {
      index.bad.insert(path + ".ffn"); // the default depends on whether there is a [moe]
    }
    if (!reader.read("residual_scale", segment.residual_scale, Presence::optional)) {
      segment.residual_scale = 1.0 / static_cast<double>(segment.visits);
      if (segment.visits < 1) {
        index.bad.insert(path + ".residual_scale"); // follows from visits, which is reported
      }
    }
    const TomlTable *attention = reader.table("attention");
    if (attention) {
      TableReader overrides(*attention, "[segment.attention]", path + ".attention", index, diagnostics);
      readAttentionKeys(overrides, segment.attention, Presence::optional);
    }
    reader.finish(homes());
    inheritProblems(path, attention);
  }

  // A field that a segment inherits from a broken default is not reported again.
  void inheritProblems(const std::string &path, const TomlTable *overrides) {
    for (std::string_view key : kAttentionKeys) {
      if (index.isBad(fmt::format("attention.{}", key)) && !(overrides && overrides->find(key))) {
        index.bad.insert(fmt::format("{}.attention.{}", path, key));
      }
    }
  }

  void reportBrokenRules() {
    if (!spec.moe && !spec.mlp && !index.isBad("moe") && !index.isBad("mlp")) {
      diagnostics.add({1, 1}, "the spec needs the table [moe], [mlp] or both");
      index.bad.insert({"moe", "mlp"});
    }
    for (const Problem &problem : validate(spec)) {
      const bool known = std::any_of(problem.fields.begin(), problem.fields.end(),
                                     [&](const std::string &field) { return index.isBad(field); });
      if (!known) {
        diagnostics.add(index.locate(problem.fields.front()), problem.message);
      }
    }
  }

  const TomlTable &document;
  Diagnostics &diagnostics;
  FieldIndex index;
  ModelSpec spec;
};

// The text of a file, at most one byte more than a spec may have, or errno.
int readText(const std::string &path, std::string &text) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) {
    return errno;
  }
  text.resize(kMaxTomlBytes + 1);
  errno = 0;
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return std::ferror(file.get()) ? (errno ? errno : EIO) : 0;
}

} // namespace

SpecResult parseSpec(std::string_view text, std::string file) {
  SpecResult result;
  result.diagnostics = Diagnostics(std::move(file));
  if (const std::optional<TomlTable> document = parseToml(text, result.diagnostics)) {
    ModelSpec spec = Reader(*document, result.diagnostics).read();
    if (result.diagnostics.empty()) {
      result.spec = std::move(spec);
    }
  }
  result.status = result.spec ? SMELT_ok : SMELT_spec;
  return result;
}

SpecResult readSpecFile(const std::string &path) {
  std::string text;
  if (const int error = readText(path, text)) {
    SpecResult result{.spec = std::nullopt, .diagnostics = Diagnostics(path), .status = SMELT_io};
    result.diagnostics.add({}, fmt::format("cannot be read: {}", std::strerror(error)));
    return result;
  }
  return parseSpec(text, path);
}

} // namespace smelt::spec
