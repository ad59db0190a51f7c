#include "compiler/Law/Runs.h"

#include "compiler/Spec/Suggest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace smelt::law {

namespace {

enum Column { flops_per_token, sparsity_percent, tokens, loss_nats, cell_name, column_count };
constexpr std::array<std::string_view, column_count> column_names = {
    "training_flops_per_token", "sparsity_percent", "tokens", "loss", "cell"};
constexpr std::array<bool, column_count> required = {true, false, true, true, false};

struct Field {
  std::string text;
  spec::Location location;
};

int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string_view trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// Splits one line at its commas.
class LineSplitter {
public:
  LineSplitter(std::string_view line, int64_t number, spec::Diagnostics &diagnostics)
      : line(line), number(number), diagnostics(diagnostics) {}

  std::vector<Field> split() {
    std::vector<Field> fields;
    do {
      fields.push_back(field());
    } while (position++ < line.size()); // past the comma
    return fields;
  }

private:
  Field field() {
    position = std::min(line.find_first_not_of(" \t", position), line.size());
    Field result{"", here()};
    if (position < line.size() && line[position] == '"') {
      result.text = quoted();
    } else {
      size_t end = std::min(line.find(',', position), line.size());
      result.text = trimmed(line.substr(position, end - position));
      position = end;
    }
    return result;
  }

  // Leaves `position` at the comma behind the field.
  std::string quoted() {
    spec::Location opening = here();
    std::string text;
    for (++position; position < line.size(); ++position) {
      if (line[position] != '"') {
        text += line[position];
      } else if (line.substr(position + 1, 1) == "\"") {
        text += line[position++]; // a doubled quote is one
      } else {
        break;
      }
    }
    if (position == line.size()) {
      diagnostics.add(opening, "this quote is not closed on its line");
      return text;
    }
    position = std::min(line.find_first_not_of(" \t", position + 1), line.size());
    if (position < line.size() && line[position] != ',') {
      diagnostics.add(here(), "expected a comma after the closing quote");
      position = std::min(line.find(',', position), line.size());
    }
    return text;
  }

  spec::Location here() const { return {number, characters(line.substr(0, position)) + 1}; }

  std::string_view line;
  int64_t number;
  spec::Diagnostics &diagnostics;
  size_t position = 0;
};

class RunsReader {
public:
  RunsReader(std::string_view text, std::string file_name) : rest(text) {
    result.diagnostics = spec::Diagnostics(std::move(file_name));
  }

  RunsResult read() {
    if (rest.starts_with("\xEF\xBB\xBF")) { // a byte order mark
      rest.remove_prefix(3);
    }
    bool header_seen = false;
    while (std::optional<std::string_view> line = nextLine()) {
      if (trimmed(*line).empty() || line->starts_with('#')) {
        continue;
      }
      std::vector<Field> fields = LineSplitter(*line, line_number, result.diagnostics).split();
      if (header_seen) {
        addRun(fields);
        continue;
      }
      header_seen = true;
      readHeader(fields);
      if (!result.diagnostics.empty()) {
        return std::move(result); // without columns, every line would be wrong
      }
    }
    if (!header_seen) {
      result.diagnostics.add({}, fmt::format("is empty; expected a line with the columns {}", columnList()));
    } else if (result.runs.empty() && result.diagnostics.empty()) {
      result.diagnostics.add({}, "has no runs below its header");
    }
    return std::move(result);
  }

private:
  std::optional<std::string_view> nextLine() {
    if (rest.empty()) {
      return std::nullopt;
    }
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    ++line_number;
    return line;
  }

  static std::string columnList() {
    return "training_flops_per_token, sparsity_percent, tokens, loss and, optionally, cell";
  }

  void readHeader(const std::vector<Field> &fields) {
    header_size = fields.size();
    for (size_t i = 0; i < fields.size(); ++i) {
      const auto *known = std::find(column_names.begin(), column_names.end(), fields[i].text);
      if (known == column_names.end()) {
        result.ignored_columns.push_back(fields[i].text);
        continue;
      }
      std::optional<size_t> &place = places[static_cast<size_t>(known - column_names.begin())];
      if (place) {
        result.diagnostics.add(fields[i].location, fmt::format("column '{}' is there twice", *known));
      }
      place = i;
    }
    for (size_t column = 0; column < column_count; ++column) {
      if (required[column] && !places[column]) {
        std::vector<std::string_view> others(result.ignored_columns.begin(), result.ignored_columns.end());
        result.diagnostics.add({line_number, 1},
                               fmt::format("column '{}' is missing{}; expected {}", column_names[column],
                                           spec::suggestion(column_names[column], others), columnList()));
      }
    }
  }

  void addRun(const std::vector<Field> &fields) {
    if (fields.size() != header_size) {
      result.diagnostics.add({line_number, 1},
                             fmt::format("has {} {}, but the header has {}", fields.size(),
                                         fields.size() == 1 ? "field" : "fields", header_size));
      return;
    }
    Run run;
    run.line = line_number;
    run.training_flops_per_token = positive(fields, flops_per_token);
    run.tokens = positive(fields, tokens);
    run.loss = positive(fields, loss_nats);
    run.sparsity = places[sparsity_percent] ? sparsity(fields[*places[sparsity_percent]]) : 0;
    run.cell = places[cell_name] ? fields[*places[cell_name]].text
                                 : fmt::format("{}/{}", run.training_flops_per_token, run.sparsity);
    if (run.cell.empty()) {
      result.diagnostics.add(fields[*places[cell_name]].location, "the cell has no name");
    }
    result.runs.push_back(std::move(run));
  }

  std::optional<double> number(const Field &field, std::string_view column) {
    double value = 0;
    const char *end = field.text.data() + field.text.size();
    auto [stop, error] = std::from_chars(field.text.data(), end, value);
    if (error == std::errc() && stop == end && std::isfinite(value)) {
      return value;
    }
    result.diagnostics.add(field.location, fmt::format("{} '{}' is not a number", column, field.text));
    return std::nullopt;
  }

  double positive(const std::vector<Field> &fields, Column column) {
    const Field &field = fields[*places[column]];
    std::optional<double> value = number(field, column_names[column]);
    if (value && !(*value > 0)) {
      result.diagnostics.add(field.location,
                             fmt::format("{} must be more than 0, not {}", column_names[column], field.text));
    }
    return value.value_or(0);
  }

  // As a fraction.
  double sparsity(const Field &field) {
    std::optional<double> percent = number(field, column_names[sparsity_percent]);
    if (percent && *percent > 0 && *percent < 1) {
      result.diagnostics.add(
          field.location,
          fmt::format("sparsity_percent {} is below 1 %; it counts in per cent, 85 for S = 0.85",
                      field.text));
    } else if (percent && !(*percent >= 0 && *percent < 100)) {
      result.diagnostics.add(
          field.location,
          fmt::format("sparsity_percent must be at least 0 and less than 100, not {}", field.text));
    }
    return percent.value_or(0) / 100;
  }

  std::string_view rest;
  int64_t line_number = 0;
  size_t header_size = 0;
  std::array<std::optional<size_t>, column_count> places;
  RunsResult result;
};

} // namespace

RunsResult readRuns(std::string_view text, std::string file_name) {
  return RunsReader(text, std::move(file_name)).read();
}

} // namespace smelt::law
