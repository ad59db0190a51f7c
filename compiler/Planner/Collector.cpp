#include "compiler/Planner/Collector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace smelt::planner {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

bool sameButExperts(const RankedShape &a, const RankedShape &b) {
  Shape shape = a.shape;
  shape.experts = b.shape.experts;
  return a.loop == b.loop && shape == b.shape;
}

// The first few points of an order.
class Sorted : public Collector {
public:
  explicit Sorted(size_t keep) : keep(keep) {}

  void take(const RankedShape &ranked) override {
    const auto before = [this](const RankedShape &a, const RankedShape &b) { return less(a, b); };
    if (full() && before(kept.back(), ranked)) {
      return;
    }
    const auto same = std::find_if(kept.begin(), kept.end(),
                                   [&](const RankedShape &other) { return sameButExperts(ranked, other); });
    if (same != kept.end()) {
      if (!before(ranked, *same)) {
        return;
      }
      kept.erase(same);
    }
    kept.insert(std::upper_bound(kept.begin(), kept.end(), ranked, before), ranked);
    if (kept.size() > keep) {
      kept.pop_back();
    }
  }

  std::vector<RankedShape> points() const override { return kept; }

protected:
  virtual bool less(const RankedShape &a, const RankedShape &b) const = 0;
  bool full() const { return kept.size() == keep; }
  const RankedShape &last() const { return kept.back(); }

private:
  size_t keep;
  std::vector<RankedShape> kept;
};

class Best : public Sorted {
public:
  using Sorted::Sorted;

  bool hopeless(const Bound &bound) const override { return full() && score(bound) > last().score; }
  double room(const Bound &bound) const override {
    return full() ? (last().score - score(bound)) / kResidualWeight : kUnlimited;
  }

private:
  static double score(const Bound &bound) { return std::sqrt(bound.squares) + kResidualWeight * bound.sum; }
  bool less(const RankedShape &a, const RankedShape &b) const override { return a < b; }
};

class Nearest : public Sorted {
public:
  using Sorted::Sorted;

  // Points as near as the last are told apart by their score.
  bool hopeless(const Bound &bound) const override {
    return full() && (bound.sum > last().sum ||
                      (bound.sum == last().sum &&
                       std::sqrt(bound.squares) + kResidualWeight * bound.sum > last().score));
  }
  double room(const Bound &bound) const override { return full() ? last().sum - bound.sum : kUnlimited; }

private:
  bool less(const RankedShape &a, const RankedShape &b) const override {
    return a.sum != b.sum ? a.sum < b.sum : a < b;
  }
};

// The smallest residual that any point so far has within a distance and a misfit.
class Envelope {
public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  void add(const FrontKey &key) {
    while (static_cast<int64_t>(levels.size()) <= key.misfit) {
      levels.push_back(levels.empty() ? std::vector<Step>() : levels.back());
    }
    for (auto level = levels.begin() + key.misfit; level != levels.end(); ++level) {
      const auto place = std::lower_bound(level->begin(), level->end(), key.distance, isNearer);
      if (place != level->begin() && std::prev(place)->residual <= key.residual) {
        continue;
      }
      auto last = place;
      while (last != level->end() && last->residual >= key.residual) {
        ++last;
      }
      if (last == place && place != level->end() && place->distance == key.distance) {
        continue;
      }
      level->insert(level->erase(place, last), {key.distance, key.residual});
    }
  }

  int64_t residual(int64_t distance, int64_t misfit) const {
    if (misfit < 0 || levels.empty()) {
      return kNone;
    }
    const auto &level = levels[std::min(static_cast<size_t>(misfit), levels.size() - 1)];
    const auto place = std::lower_bound(level.begin(), level.end(), distance + 1, isNearer);
    return place == level.begin() ? kNone : std::prev(place)->residual;
  }

private:
  // From here on, up to the next step.
  struct Step {
    int64_t distance = 0;
    int64_t residual = 0;
  };
  static bool isNearer(const Step &step, int64_t distance) { return step.distance < distance; }

  std::vector<std::vector<Step>> levels; // by misfit: of points with at most that
};

class Front : public Collector {
public:
  bool hopeless(const Bound &bound) const override {
    const FrontKey key = frontKey(bound.worst, std::sqrt(bound.squares), bound.misfit);
    const int64_t least = envelope.residual(key.distance, key.misfit);
    if (least != key.residual) {
      return least < key.residual;
    }
    // As good as the best one: another point than itself must be.
    return envelope.residual(key.distance - 1, key.misfit) <= key.residual ||
           envelope.residual(key.distance, key.misfit - 1) <= key.residual;
  }

  double room(const Bound &bound) const override {
    const int64_t least = envelope.residual(frontKey(0, std::sqrt(bound.squares), 0).distance, bound.misfit);
    return least == Envelope::kNone ? kUnlimited : static_cast<double>(least) * kResidualStep;
  }

  void take(const RankedShape &ranked) override {
    const FrontKey key = frontKey(ranked);
    for (const Entry &entry : front) {
      if (entry.key.covers(key) && (entry.key != key || !(ranked < entry.ranked))) {
        return;
      }
    }
    std::erase_if(front, [&](const Entry &entry) { return key.covers(entry.key); });
    front.push_back({key, ranked});
    envelope.add(key);
  }

  std::vector<RankedShape> points() const override {
    std::vector<Entry> sorted = front;
    std::sort(sorted.begin(), sorted.end(), [](const Entry &a, const Entry &b) {
      return std::tie(a.key.residual, a.key.distance, a.key.misfit) <
             std::tie(b.key.residual, b.key.distance, b.key.misfit);
    });
    std::vector<RankedShape> result;
    for (const Entry &entry : sorted) {
      result.push_back(entry.ranked);
    }
    return result;
  }

private:
  struct Entry {
    FrontKey key;
    RankedShape ranked;
  };
  std::vector<Entry> front;
  Envelope envelope; // of what is and what was in the front: what was is bettered
};

} // namespace

std::unique_ptr<Collector> makeCollector(Goal goal, size_t keep) {
  switch (goal) {
  case Goal::best:
    return std::make_unique<Best>(keep);
  case Goal::nearest:
    return std::make_unique<Nearest>(keep);
  case Goal::front:
    return std::make_unique<Front>();
  }
  return nullptr;
}

} // namespace smelt::planner
