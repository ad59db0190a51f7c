#include "compiler/Import/HuggingFace.h"

#include "compiler/Import/HuggingFaceFamily.h"
#include "compiler/Spec/Suggest.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace smelt::hf {
namespace {

using nlohmann::json;

// Larger than any config.
constexpr size_t kMaxFileBytes = size_t{4} << 20;
constexpr size_t kMaxDepth = 64;

std::vector<Family> families() {
  std::vector<Family> result;
  for (std::span<const Family> list :
       {denseFamilies(), mixtralFamilies(), qwenMoeFamilies(), deepSeekFamilies(), loopedFamilies()}) {
    result.insert(result.end(), list.begin(), list.end());
  }
  return result;
}

// Configs whose text model stands in `text_config`, and what that is when it does not say itself.
struct Wrapper {
  std::string_view model_type;
  std::string_view text_type;
};
constexpr Wrapper kWrappers[] = {{"llama4", "llama4_text"},
                                 {"gemma3", "gemma3_text"},
                                 {"mistral3", "mistral"},
                                 {"qwen3_vl", "qwen3_vl_text"},
                                 {"qwen3_vl_moe", "qwen3_vl_moe_text"},
                                 {"kimi_vl", "deepseek_v3"},
                                 {"kimi_k25", "kimi_k2"}};

// Keys of training, generation, tokens and bookkeeping that any config may have.
void ignoreCommonKeys(ConfigReader &reader) {
  reader.ignore({"model_type",
                 "architectures",
                 "_name_or_path",
                 "name_or_path",
                 "transformers_version",
                 "auto_map",
                 "bos_token_id",
                 "eos_token_id",
                 "pad_token_id",
                 "sep_token_id",
                 "decoder_start_token_id",
                 "tokenizer_class",
                 "use_cache",
                 "initializer_range",
                 "attention_dropout",
                 "hidden_dropout",
                 "hidden_dropout_prob",
                 "embd_pdrop",
                 "resid_pdrop",
                 "output_router_logits",
                 "router_aux_loss_coef",
                 "router_jitter_noise",
                 "input_jitter_noise",
                 "router_z_loss_coef",
                 "pretraining_tp",
                 "max_position_embeddings",
                 "_attn_implementation",
                 "attn_implementation",
                 "_attn_implementation_autoset",
                 "_commit_hash",
                 "base_config_key",
                 "sub_configs"});
  reader.ignore({"return_dict",
                 "output_hidden_states",
                 "output_attentions",
                 "torchscript",
                 "use_bfloat16",
                 "tf_legacy_loss",
                 "pruned_heads",
                 "chunk_size_feed_forward",
                 "is_encoder_decoder",
                 "is_decoder",
                 "cross_attention_hidden_size",
                 "add_cross_attention",
                 "tie_encoder_decoder",
                 "max_length",
                 "min_length",
                 "do_sample",
                 "early_stopping",
                 "num_beams",
                 "num_beam_groups",
                 "diversity_penalty",
                 "temperature",
                 "top_k",
                 "top_p",
                 "typical_p",
                 "repetition_penalty",
                 "length_penalty",
                 "no_repeat_ngram_size",
                 "encoder_no_repeat_ngram_size",
                 "bad_words_ids",
                 "num_return_sequences",
                 "output_scores",
                 "return_dict_in_generate",
                 "forced_bos_token_id",
                 "forced_eos_token_id",
                 "remove_invalid_values",
                 "exponential_decay_length_penalty",
                 "suppress_tokens",
                 "begin_suppress_tokens",
                 "finetuning_task",
                 "id2label",
                 "label2id",
                 "prefix",
                 "task_specific_params",
                 "problem_type",
                 "unsloth_fixed",
                 "unsloth_version"});
}

// The JSON value, or null with a problem. Keys that stand twice in one object are problems: readers differ on
// which holds.
json parseJson(std::string_view text, spec::Diagnostics &problems) {
  std::vector<std::set<std::string>> open;
  bool too_deep = false;
  const auto note = [&](int depth, json::parse_event_t event, json &parsed) {
    if (depth > static_cast<int>(kMaxDepth)) {
      too_deep = true;
      return false;
    }
    if (event == json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == json::parse_event_t::object_end && !open.empty()) {
      open.pop_back();
    } else if (event == json::parse_event_t::key && !open.empty()) {
      const std::string key = parsed.get<std::string>();
      if (!open.back().insert(key).second) {
        problems.add(locateKey(text, 0, key), fmt::format("'{}' stands twice in one object", key));
      }
    }
    return true;
  };
  json result = json::parse(text.begin(), text.end(), note, /*allow_exceptions=*/false);
  if (too_deep) {
    problems.add({}, fmt::format("the JSON is nested more than {} deep", kMaxDepth));
  } else if (result.is_discarded() || !result.is_object()) {
    problems.add({}, "this is not a JSON object");
  }
  return result;
}

std::string wordAt(const json &config, const char *key) {
  const auto word = config.find(key);
  return word != config.end() && word->is_string() ? word->get<std::string>() : "";
}

std::string typeOf(const json &config) { return wordAt(config, "model_type"); }

// Keys that stand beside text_config and hold for the text model too.
void passDown(const json &outer, json &inner) {
  for (const char *key : {"tie_word_embeddings", "torch_dtype", "dtype", "quantization_config"}) {
    if (outer.contains(key) && !inner.contains(key)) {
      inner[key] = outer[key];
    }
  }
}

// The text model's object, with the type that it has. `start` becomes where it begins.
json textConfig(const json &config, std::string_view text, size_t &start, Model &model) {
  const std::string type = typeOf(config);
  const auto *wrapper = std::find_if(std::begin(kWrappers), std::end(kWrappers),
                                     [&](const Wrapper &w) { return w.model_type == type; });
  const auto inner = config.find("text_config");
  if (wrapper == std::end(kWrappers) || inner == config.end() || !inner->is_object()) {
    return config;
  }
  json result = *inner;
  passDown(config, result);
  if (typeOf(result).empty()) {
    result["model_type"] = wrapper->text_type;
  }
  start = std::min(text.find("\"text_config\""), text.size());
  model.notes.emplace_back("only the text model is counted");
  return result;
}

const Family *findFamily(const std::vector<Family> &known, const std::string &type) {
  const auto family =
      std::find_if(known.begin(), known.end(), [&](const Family &f) { return f.model_type == type; });
  return family == known.end() ? nullptr : &*family;
}

std::string unknownType(const std::string &type) {
  const std::vector<std::string_view> known = modelTypes();
  if (type.empty()) {
    return fmt::format("'model_type' is missing; it must be {}", spec::listWords(known));
  }
  return fmt::format("'model_type' = \"{}\" is not supported{}; known are {}", type,
                     spec::suggestion(type, known), spec::listWords(known));
}

std::string unknownBase(const std::string &type) {
  std::vector<std::string_view> known;
  for (const Family &family : families()) {
    known.push_back(family.model_type);
  }
  known.push_back(kOwnLayers);
  return type.empty()
             ? fmt::format("'base_model_type' is missing or null; it must be {}", spec::listWords(known))
             : fmt::format("'base_model_type' = \"{}\" is not a family{}; known are {}", type,
                           spec::suggestion(type, known), spec::listWords(known));
}

} // namespace

std::vector<std::string_view> modelTypes() {
  std::vector<std::string_view> result;
  for (const Family &family : families()) {
    result.push_back(family.model_type);
  }
  for (const Wrapper &wrapper : kWrappers) {
    result.push_back(wrapper.model_type);
  }
  result.push_back(kLoopedType);
  return result;
}

ModelResult parseConfig(std::string_view text, std::string file, std::string name) {
  ModelResult result;
  result.diagnostics = spec::Diagnostics(std::move(file));
  result.status = SMELT_spec;
  if (text.size() > kMaxFileBytes) {
    result.diagnostics.add({}, fmt::format("{} bytes are too many for a config; at most {} are read",
                                           text.size(), kMaxFileBytes));
    return result;
  }
  const json outer = parseJson(text, result.diagnostics);
  if (!result.diagnostics.empty()) {
    return result;
  }
  Model model;
  size_t start = 0;
  const json config = textConfig(outer, text, start, model);
  model.model_type = typeOf(config);
  model.architecture.name = std::move(name);
  const std::vector<Family> known = families();
  const bool looped = model.model_type == kLoopedType;
  const std::string type = looped ? wordAt(config, "base_model_type") : model.model_type;
  constexpr Family own{kOwnLayers, readOwnLayers};
  const Family *family = looped && type == kOwnLayers ? &own : findFamily(known, type);
  if (family == nullptr) {
    result.diagnostics.add(locateKey(text, start, looped ? "base_model_type" : "model_type"),
                           looped ? unknownBase(type) : unknownType(type));
    return result;
  }
  ConfigReader reader(config, text, start, result.diagnostics);
  ignoreCommonKeys(reader);
  family->read(reader, model);
  if (looped) {
    readSegments(reader, model);
  }
  model.config = config.dump();
  reader.refuseOthers(fmt::format("a {} config", model.model_type));
  if (result.diagnostics.empty()) {
    result.model = std::move(model);
    result.status = SMELT_ok;
  }
  return result;
}

ModelResult readConfigFile(const std::string &path) {
  ModelResult result;
  result.diagnostics = spec::Diagnostics(path);
  result.status = SMELT_io;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    result.diagnostics.add({}, "this is a folder; give the config.json in it");
    return result;
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    result.diagnostics.add({}, fmt::format("cannot be opened: {}", std::strerror(errno)));
    return result;
  }
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) {
    result.diagnostics.add({}, fmt::format("cannot be read: {}", std::strerror(errno)));
    return result;
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  const std::filesystem::path file(path);
  // "config.json" says nothing; the folder it lies in is named after the model.
  const std::string stem = file.stem().string();
  const std::string folder = std::filesystem::absolute(file, error).parent_path().filename().string();
  return parseConfig(text, path, stem == "config" && !folder.empty() ? folder : stem);
}

} // namespace smelt::hf
