#include "compiler/Budget/KvLaw.h"

#include "compiler/Budget/CheckedInt.h"

#include <algorithm>

namespace smelt::budget {

std::optional<int64_t> KvLaw::elements(int64_t positions) const {
  CheckedInt sum = CheckedInt(fixed) + CheckedInt(slope) * positions;
  for (const Window &window : windows) {
    sum += CheckedInt(window.slope) * std::min(positions, window.positions);
  }
  return sum.value();
}

std::vector<KvLaw::Piece> KvLaw::pieces() const {
  Piece piece{.from = 0, .fixed = fixed, .slope = slope};
  for (const Window &window : windows) {
    piece.slope += window.slope;
  }
  std::vector<Piece> result = {piece};
  for (const Window &window : windows) {
    piece.from = window.positions;
    piece.slope -= window.slope;
    piece.fixed += window.slope * window.positions;
    result.push_back(piece);
  }
  return result;
}

} // namespace smelt::budget
