#include "compiler/Spec/Suggest.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace smelt::spec {
namespace {

// Optimal string alignment distance.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    previous[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = previous[j - 1] + (a[i - 1] != b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

} // namespace

std::string_view nearestWord(std::string_view word, std::span<const std::string_view> candidates) {
  // Nothing longer is near any word we know; also bounds the work on hostile input.
  if (word.size() > 64) {
    return "";
  }
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (std::string_view candidate : candidates) {
    const size_t distance = editDistance(word, candidate);
    if (distance * 3 <= std::max(word.size(), candidate.size()) && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view nearest = nearestWord(word, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

std::string listWords(std::span<const std::string_view> words) {
  std::string result;
  for (size_t i = 0; i < words.size(); ++i) {
    result += i == 0 ? "" : (i + 1 == words.size() ? " or " : ", ");
    result += fmt::format("'{}'", words[i]);
  }
  return result;
}

} // namespace smelt::spec
