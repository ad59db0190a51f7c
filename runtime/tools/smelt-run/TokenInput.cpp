#include "runtime/tools/smelt-run/TokenInput.h"

#include "runtime/src/MappedFile.h"
#include "runtime/src/Npy.h"
#include "runtime/src/Text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstring>

namespace smelt::runtime {
namespace {

Status invalid(const std::string &what) { return fail(SMELT_input, what); }

// "1,2, 3"
Result<Prompt> parseTokenList(const std::string &text) {
  Prompt prompt;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string_view word(text.data() + begin, end - begin);
    while (word.starts_with(' ')) {
      word.remove_prefix(1);
    }
    while (word.ends_with(' ')) {
      word.remove_suffix(1);
    }
    int32_t value = 0;
    auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size()) {
      return invalid(fmt::format("--tokens: token {} is '{}', not a 32-bit integer; expected a list as 1,2,3",
                                 prompt.size(), printable(word)));
    }
    prompt.push_back(value);
    begin = end + 1;
  }
  return prompt;
}

Result<Prompt> jsonPrompt(const std::string &path, const nlohmann::json &list, const std::string &place) {
  Prompt prompt;
  for (const nlohmann::json &item : list) {
    bool fits =
        item.is_number_integer() &&
        (item.is_number_unsigned() ? item.get<uint64_t>() <= uint64_t(INT32_MAX)
                                   : item.get<int64_t>() >= INT32_MIN && item.get<int64_t>() <= INT32_MAX);
    if (!fits) {
      return invalid(fmt::format(
          "{}: item {}{} is {}, not a 32-bit integer", path, place, prompt.size(),
          item.is_primitive() ? printable(item.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace))
                              : item.type_name()));
    }
    prompt.push_back(item.get<int32_t>());
  }
  return prompt;
}

Result<std::vector<Prompt>> parseJson(const std::string &path, std::span<const std::byte> bytes) {
  const char *begin = reinterpret_cast<const char *>(bytes.data());
  nlohmann::json json = nlohmann::json::parse(begin, begin + bytes.size(), nullptr, false);
  if (!json.is_array()) {
    return invalid(fmt::format("{}: is not a JSON list of token ids, or of such lists", path));
  }
  bool nested = !json.empty() && json[0].is_array();
  if (!nested) {
    Result<Prompt> prompt = jsonPrompt(path, json, "");
    return prompt.ok() ? Result(std::vector<Prompt>{std::move(*prompt)})
                       : Result<std::vector<Prompt>>(prompt.takeStatus());
  }
  std::vector<Prompt> prompts;
  for (const nlohmann::json &item : json) {
    if (!item.is_array()) {
      return invalid(
          fmt::format("{}: item {} is {}, the first is a list", path, prompts.size(), item.type_name()));
    }
    Result<Prompt> prompt = jsonPrompt(path, item, fmt::format("{}.", prompts.size()));
    if (!prompt.ok()) {
      return prompt.takeStatus();
    }
    prompts.push_back(std::move(*prompt));
  }
  return prompts;
}

Result<std::vector<Prompt>> parseNpyPrompts(const std::string &path, std::span<const std::byte> bytes) {
  Result<NpyArray> array = parseNpy(path, bytes);
  if (!array.ok()) {
    return array.takeStatus();
  }
  if (array->type == NpyType::f32 || array->shape.size() > 2) {
    return invalid(fmt::format("{}: token ids must be int32 or int64 of one or two dimensions, not {} {}",
                               path, array->type == NpyType::f32 ? "float32" : "integers",
                               formatShape(array->shape)));
  }
  size_t count = array->shape.size() == 2 ? array->shape[0] : 1, length = array->shape.back();
  if (length == 0 ||
      count == 0) { // a shape such as [2^40, 0] holds no data, so its rows are not worth a loop
    return invalid(fmt::format("{}: has the shape {}: no tokens", path, formatShape(array->shape)));
  }
  std::vector<Prompt> prompts(count, Prompt(length));
  size_t width = array->type == NpyType::i64 ? 8 : 4;
  for (size_t i = 0; i < count * length; ++i) {
    int64_t wide = 0;
    int32_t narrow = 0;
    if (width == 8) {
      std::memcpy(&wide, array->data.data() + i * width, width);
    } else {
      std::memcpy(&narrow, array->data.data() + i * width, width);
      wide = narrow;
    }
    if (wide < INT32_MIN || wide > INT32_MAX) {
      return invalid(fmt::format("{}: item {} is {}, not a 32-bit integer", path, i, wide));
    }
    prompts[i / length][i % length] = int32_t(wide);
  }
  return prompts;
}

Result<std::vector<Prompt>> readFile(const std::string &path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) {
    return file.takeStatus();
  }
  return path.ends_with(".npy") ? parseNpyPrompts(path, file->bytes()) : parseJson(path, file->bytes());
}

} // namespace

Result<std::vector<Prompt>> readPrompts(const RunOptions &options) {
  std::vector<Prompt> prompts;
  if (!options.tokensFile.empty()) {
    Result<std::vector<Prompt>> read = readFile(options.tokensFile);
    if (!read.ok()) {
      return read.takeStatus();
    }
    prompts = std::move(*read);
  }
  for (const std::string &text : options.tokens) {
    Result<Prompt> prompt = parseTokenList(text);
    if (!prompt.ok()) {
      return prompt.takeStatus();
    }
    prompts.push_back(std::move(*prompt));
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) {
      return invalid(fmt::format("prompt {} has no tokens", i));
    }
  }
  if (prompts.empty()) {
    return invalid("there are no prompts");
  }
  if (prompts.size() > 1 && !options.batch) {
    return invalid(fmt::format("there are {} prompts; add --batch to run them together", prompts.size()));
  }
  return prompts;
}

Status checkPrompts(const std::vector<Prompt> &prompts, uint32_t vocabSize) {
  ProblemList problems;
  for (size_t p = 0; p < prompts.size(); ++p) {
    for (size_t i = 0; i < prompts[p].size(); ++i) {
      if (int32_t token = prompts[p][i]; token < 0 || uint32_t(token) >= vocabSize) {
        problems.add(fmt::format("token {} of prompt {} is {}", i, p, token));
      }
    }
  }
  return problems.empty() ? success()
                          : invalid(fmt::format("token ids must be in 0..{}, the model's vocabulary:{}",
                                                vocabSize - 1, problems.text()));
}

} // namespace smelt::runtime
