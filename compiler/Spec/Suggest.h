// "did you mean" suggestions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace smelt::spec {

// The candidate nearest to word by edit distance (insert, delete, replace, swap neighbours), or "" when none
// is close enough to be a likely slip of the pen: at most a third of the longer word's letters.
std::string_view nearestWord(std::string_view word, std::span<const std::string_view> candidates);

// "; did you mean 'x'?" or "".
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

// "'a', 'b' or 'c'".
std::string listWords(std::span<const std::string_view> words);

} // namespace smelt::spec
