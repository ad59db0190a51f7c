#include "compiler/Budget/Context.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace smelt::budget {
namespace {

// A sequence length or window, in full.
std::optional<int64_t> parseLength(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > Context::kMaxLength) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::vector<int64_t>> parseLengths(std::string_view text, char separator) {
  std::vector<int64_t> result;
  int64_t sum = 0;
  while (true) {
    const size_t end = text.find(separator);
    const std::optional<int64_t> value = parseLength(text.substr(0, end));
    if (!value || (sum += *value) > Context::kMaxLength) {
      return std::nullopt;
    }
    result.push_back(*value);
    if (end == std::string_view::npos) {
      return result;
    }
    text.remove_prefix(end + 1);
  }
}

int64_t chunkedPositions(int64_t length, int64_t chunk) {
  return length / chunk * causalPositions(chunk, chunk) + causalPositions(length % chunk, chunk);
}

} // namespace

int64_t causalPositions(int64_t length, int64_t window) {
  const int64_t near = std::min(length, window);
  return near * (near + 1) / 2 + (length - near) * near;
}

Context Context::window(int64_t length, int64_t window) {
  Context result = causal(length);
  result.cap = window;
  return result;
}

std::optional<Context> Context::parse(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view word = text.substr(0, colon);
  const std::string_view rest = text.substr(colon + 1);
  if (word == "mean") {
    const auto mean = Attended::parse(rest);
    return mean ? std::optional(Context(*mean)) : std::nullopt;
  }
  if (word == "window") {
    const size_t second = rest.find(':');
    const auto size = second == std::string_view::npos ? std::nullopt : parseLength(rest.substr(second + 1));
    const auto whole = parseLength(rest.substr(0, second));
    return size && whole ? std::optional(window(*whole, *size)) : std::nullopt;
  }
  if (word == "packed") {
    auto documents = parseLengths(rest, ',');
    return documents ? std::optional(packed(std::move(*documents))) : std::nullopt;
  }
  const auto whole = parseLength(rest);
  if (!whole) {
    return std::nullopt;
  }
  if (word == "full") {
    return full(*whole);
  }
  return word == "causal" ? std::optional(causal(*whole)) : std::nullopt;
}

std::string Context::text() const {
  switch (kind) {
  case Kind::mean:
    return fmt::format("mean:{}", attended.text());
  case Kind::full:
    return fmt::format("full:{}", lengths.front());
  case Kind::packed:
    if (cap > 0) {
      return fmt::format("window:{}:{}", lengths.front(), cap);
    }
    return lengths.size() == 1 ? fmt::format("causal:{}", lengths.front())
                               : fmt::format("packed:{}", fmt::join(lengths, ","));
  }
  return "";
}

std::string Context::words() const {
  return kind == Kind::mean ? attended.text() + " attended positions" : "a context of " + text();
}

Mean Context::mean(Reach reach, int64_t size) const {
  const bool limited = reach != Reach::full;
  if (kind == Kind::mean) {
    if (limited && attended.whole() >= size) {
      return {.total = size, .queries = 1};
    }
    // Whole parts beyond this are errors of the caller's sums, not of this one.
    return attended.half() && attended.whole() < INT64_MAX / 2
               ? Mean{.total = 2 * attended.whole() + 1, .queries = 2}
               : Mean{.total = attended.whole(), .queries = 1};
  }
  if (kind == Kind::full) {
    const int64_t seen = limited ? std::min(size, lengths.front()) : lengths.front();
    return {.total = seen, .queries = 1};
  }
  Mean mean{.total = 0, .queries = 0};
  for (const int64_t document : lengths) {
    int64_t window = cap > 0 ? cap : document;
    if (reach == Reach::sliding) {
      window = std::min(window, size);
    }
    // A window across chunks is not a thing any model has: the shorter of both bounds it.
    mean.total += reach == Reach::chunked && size < window ? chunkedPositions(document, size)
                                                           : causalPositions(document, window);
    mean.queries += document;
  }
  return mean;
}

} // namespace smelt::budget
