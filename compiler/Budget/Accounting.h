// The one accounting: every budget of a spec or an imported model is a sum over these counts.
//
// Convention "exact": a multiply-add is 2 FLOPs; every executed matrix counts, and so do the attention scores
// and the weighted values; norms, biases, softmax, activations, the convolution and recurrence of linear
// attention and the lookup of the input embedding do not. docs/budgets.md defines each number.
#pragma once

#include "compiler/Budget/Architecture.h"
#include "compiler/Budget/CheckedInt.h"
#include "compiler/Budget/Context.h"
#include "compiler/Budget/KvLaw.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace smelt::budget {

enum class Component { attention, router, experts, shared, mlp, norms, adapters, embedding, head };
inline constexpr size_t kComponents = 9;
// "attention", "router", ... : the JSON key.
std::string_view componentName(Component component);

// Weights of a part of a model. `matrices` are the elements that one token is multiplied with.
struct WeightCount {
  CheckedInt params;
  CheckedInt active;
  CheckedInt matrices;

  WeightCount &operator+=(const WeightCount &other);
  friend WeightCount operator*(WeightCount count, CheckedInt factor);
};
using WeightTally = std::array<WeightCount, kComponents>;

// One layer, visited once; the embedding, head and adapter entries are zero.
WeightTally countLayer(const Layer &layer, int64_t hidden_size);
WeightCount sumOf(const WeightTally &tally);
// An adapter, executed once.
WeightCount countAdapter(const Adapter &adapter);
// Elements of what is outside the layers. Without a head of its own, the embedding is the head.
struct OutsideWeights {
  CheckedInt embedding;
  CheckedInt untied; // the embedding again, or nothing
  CheckedInt final_norm;
  CheckedInt head_bias;

  explicit OutsideWeights(const Architecture &architecture);

  CheckedInt params() const { return embedding + untied + final_norm + head_bias; }
  // Of one row of logits.
  CheckedInt headFlops() const { return CheckedInt(2) * embedding; }
};

// FLOPs of scores and weighted values for one query and one position: 2 x heads x (key size + value size).
CheckedInt scoreFlops(const Attention &attention);
// Elements that one layer caches per position, and its state whatever the position.
CheckedInt cachedPerPosition(const Attention &attention);
CheckedInt cachedState(const Attention &attention);

// Sums of rational attention means: exact until it is read, then rounded to the nearest integer.
class FlopSum {
public:
  void add(CheckedInt flops) { whole += flops; }
  // `per_position` FLOPs for each attended position. All means of one sum have the same number of queries,
  // or 1.
  void add(CheckedInt per_position, Mean mean);
  CheckedInt value() const;

private:
  CheckedInt whole;
  CheckedInt parts; // of 1 / queries
  int64_t queries = 1;
};

struct ComponentAccount {
  int64_t params = 0;        // stored once, however often visited
  int64_t active_params = 0; // what one token uses
  int64_t forward_flops = 0; // of all visits
};

struct Account {
  // The budgets of a spec: layers and adapters alone.
  int64_t non_embedding_params = 0;
  int64_t total_params = 0; // with embedding, final norm and untied head; without multi-token prediction
  int64_t active_params = 0;
  int64_t training_flops = 0; // 3 x forward
  int64_t forward_flops = 0;
  int64_t kv_elements_per_token = 0; // while no window is full yet
  int64_t executed_layers = 0;

  // What model cards call non-embedding and active: with the final norm, and as named. A tied embedding is
  // the head.
  int64_t non_embedding_params_with_final_norm = 0;
  int64_t active_params_all = 0;
  int64_t active_params_without_input_embedding = 0;
  int64_t active_params_without_embeddings = 0;
  int64_t stored_params = 0; // total, multi-token prediction, and the embedding and head stored again for it
  int64_t mtp_params = 0;
  int64_t mtp_active_params = 0;
  int64_t mtp_forward_flops = 0; // its layers, projections and heads

  int64_t head_flops = 0;
  int64_t forward_flops_with_head = 0;
  int64_t training_flops_with_head = 0;
  int64_t loop_flops_per_visit = 0; // forward, of one visit of everything that loops; in forward_flops too
  KvLaw kv;
  std::array<ComponentAccount, kComponents> components; // of the model without multi-token prediction
};

struct AccountResult {
  std::optional<Account> account;
  std::string error; // which number does not fit in 64 bits, when there is none

  explicit operator bool() const { return account.has_value(); }
};

AccountResult accountFor(const Architecture &architecture, const Context &context = Context());

} // namespace smelt::budget
