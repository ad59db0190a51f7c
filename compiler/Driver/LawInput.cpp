#include "compiler/Driver/LawInput.h"

#include "compiler/Driver/UserError.h"
#include "compiler/Law/LawFile.h"
#include "compiler/Law/PublishedLaws.h"
#include "compiler/Spec/Suggest.h"
#include "runtime/src/MappedFile.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <string_view>

namespace smelt::driver {

namespace {

constexpr size_t largest_text = size_t(64) << 20;

std::optional<double> parseNumber(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

bool looksLikePath(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json");
}

UserError unknownLaw(const std::string &name) {
  std::vector<std::string_view> names;
  for (const law::ScalingLaw &law : law::publishedLaws()) {
    names.push_back(law.name);
  }
  return UserError(SMELT_usage,
                   fmt::format("'{}' is not a law{}; there are {}, and files written by smeltc law fit -o, "
                               "whose names end in .json or contain a /",
                               name, spec::suggestion(name, names), fmt::join(names, ", ")));
}

} // namespace

std::string readTextFile(const std::string &path) {
  runtime::Result<runtime::MappedFile> file = runtime::MappedFile::open(path);
  if (!file.ok()) {
    throw UserError(file.status().code, file.status().message);
  }
  if (file->bytes().size() > largest_text) {
    throw UserError(SMELT_io, fmt::format("{}: has {} bytes; text files of up to {} are read", path,
                                          file->bytes().size(), largest_text));
  }
  return {reinterpret_cast<const char *>(file->bytes().data()), file->bytes().size()};
}

law::ScalingLaw loadLaw(const std::string &name_or_path) {
  if (const law::ScalingLaw *published = law::findPublishedLaw(name_or_path)) {
    return *published;
  }
  if (!looksLikePath(name_or_path)) {
    throw unknownLaw(name_or_path);
  }
  law::LawResult result = law::readLaw(readTextFile(name_or_path));
  if (!result) {
    std::vector<std::string> lines;
    for (const std::string &problem : result.problems) {
      lines.push_back(fmt::format("{}: {}", name_or_path, problem));
    }
    throw UserError(SMELT_io, fmt::format("{}", fmt::join(lines, "\n")));
  }
  if (result.law->name.empty()) {
    result.law->name = name_or_path;
  }
  return *std::move(result.law);
}

CLI::Validator positiveNumber() {
  auto check = [](std::string &text) -> std::string {
    std::optional<double> value = parseNumber(text);
    return value && *value > 0 ? "" : fmt::format("'{}' is not a number above 0, such as 1e21", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator sparsityPercent() {
  auto check = [](std::string &text) -> std::string {
    std::optional<double> value = parseNumber(text);
    if (value && *value > 0 && *value < 1) {
      return fmt::format("'{}' is below 1 %; sparsity is in per cent, 85 for S = 0.85", text);
    }
    return value && *value >= 0 && *value < 100
               ? ""
               : fmt::format("'{}' is not a sparsity in per cent, from 0 to below 100", text);
  };
  return CLI::Validator(check, "");
}

} // namespace smelt::driver
