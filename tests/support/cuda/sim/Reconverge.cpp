#include "tests/support/cuda/sim/Reconverge.h"

#include "tests/support/cuda/sim/Control.h"

#include <algorithm>

namespace smelt::emu {
namespace {

/// Post-dominators over single instructions: only branch targets and their successors matter, so blocks are
/// formed first. The iteration is Cooper, Harvey and Kennedy's on the reversed graph.
class PostDominators {
public:
  PostDominators(const Program &program, bool drop_returns) : program(program) {
    formBlocks();
    const size_t count = starts.size();
    successors.resize(count);
    for (size_t i = 0; i < count; ++i) {
      connect(i, drop_returns);
    }
    solve();
  }

  /// First instruction of the immediate post-dominator of the block that ends at `pc`; kNoPc if there is
  /// none.
  uint32_t after(uint32_t pc) const {
    const int dominator = idom[blockOf(pc)];
    return dominator < 0 || dominator == exit() ? kNoPc : starts[dominator];
  }
  bool reachesExit(uint32_t pc) const { return idom[blockOf(pc)] >= 0; }

private:
  int exit() const { return static_cast<int>(starts.size()); }
  size_t blockOf(uint32_t pc) const {
    return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), pc) - starts.begin()) - 1;
  }
  uint32_t lastOf(size_t block) const {
    return (block + 1 < starts.size() ? starts[block + 1] : static_cast<uint32_t>(program.code.size())) - 1;
  }

  void formBlocks() {
    starts.push_back(0);
    for (uint32_t pc = 0; pc < program.code.size(); ++pc) {
      const Instr &in = program.code[pc];
      if (isBranch(in)) {
        starts.push_back(in.target);
      }
      if ((isBranch(in) || isExit(in)) && pc + 1 < program.code.size()) {
        starts.push_back(pc + 1);
      }
    }
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  }

  bool isReturn(int block) const {
    return block != exit() && isExit(program.code[starts[block]]) &&
           program.code[starts[block]].guard == kNoRef;
  }

  void connect(size_t block, bool drop_returns) {
    const uint32_t last = lastOf(block);
    const Instr &in = program.code[last];
    auto &to = successors[block];
    const bool conditional = in.guard != kNoRef;
    if (isBranch(in)) {
      to.push_back(static_cast<int>(blockOf(in.target)));
    } else if (isExit(in)) {
      to.push_back(exit());
    }
    if (!(isBranch(in) || isExit(in)) || conditional) {
      to.push_back(last + 1 < program.code.size() ? static_cast<int>(blockOf(last + 1)) : exit());
    }
    if (drop_returns && to.size() == 2) {
      std::erase_if(to, [&, first = true](int target) mutable {
        const bool drop = first && (target == exit() || isReturn(target));
        first &= !drop;
        return drop;
      });
    }
  }

  void solve() {
    const int count = exit() + 1;
    std::vector<std::vector<int>> predecessors(static_cast<size_t>(count));
    for (int i = 0; i < exit(); ++i) {
      for (const int to : successors[i]) {
        predecessors[to].push_back(i);
      }
    }
    // Post-order of the reversed graph from the exit.
    std::vector<int> order, number(static_cast<size_t>(count), -1);
    std::vector<std::pair<int, size_t>> stack{{exit(), 0}};
    std::vector<bool> seen(static_cast<size_t>(count), false);
    seen[exit()] = true;
    while (!stack.empty()) {
      auto &[node, next] = stack.back();
      if (next < predecessors[node].size()) {
        const int to = predecessors[node][next++];
        if (!seen[to]) {
          seen[to] = true;
          stack.emplace_back(to, 0);
        }
      } else {
        number[node] = static_cast<int>(order.size());
        order.push_back(node);
        stack.pop_back();
      }
    }
    idom.assign(static_cast<size_t>(count), -1);
    idom[exit()] = exit();
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = order.rbegin(); it != order.rend(); ++it) {
        if (*it == exit()) {
          continue;
        }
        int best = -1;
        for (int to : successors[*it]) {
          if (idom[to] < 0) {
            continue;
          }
          for (int other = best; best >= 0 && to != other;) {
            while (number[to] < number[other]) {
              to = idom[to];
            }
            while (number[other] < number[to]) {
              other = idom[other];
            }
            best = other;
          }
          best = best < 0 ? to : best;
        }
        if (best != idom[*it]) {
          idom[*it] = best;
          changed = true;
        }
      }
    }
  }

  const Program &program;
  std::vector<uint32_t> starts;
  std::vector<std::vector<int>> successors;
  std::vector<int> idom;
};

} // namespace

void findReconvergence(Program &program) {
  const PostDominators reduced(program, true), full(program, false);
  for (uint32_t pc = 0; pc < program.code.size(); ++pc) {
    Instr &in = program.code[pc];
    if (!isBranch(in) || in.guard == kNoRef) {
      continue;
    }
    in.reconverge = (reduced.reachesExit(pc) ? reduced : full).after(pc);
    if (in.reconverge != kNoPc) {
      program.code[in.reconverge].flags |= kJoinPoint;
    }
  }
}

} // namespace smelt::emu
