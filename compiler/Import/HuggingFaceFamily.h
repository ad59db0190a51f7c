// What the readers of the model families share. A family's reader turns the keys of its configuration class
// into layers; it follows the class that defines the model, with that class's defaults.
#pragma once

#include "compiler/Import/ConfigReader.h"
#include "compiler/Import/HuggingFace.h"

#include <functional>
#include <span>

namespace smelt::hf {

struct Family {
  std::string_view model_type;
  void (*read)(ConfigReader &, Model &);
};

// One list a file: HuggingFaceDense.cpp, ...Mixtral.cpp, ...Qwen.cpp, ...DeepSeek.cpp, ...Looped.cpp.
std::span<const Family> denseFamilies();
std::span<const Family> mixtralFamilies();
std::span<const Family> qwenMoeFamilies();
std::span<const Family> deepSeekFamilies();
std::span<const Family> loopedFamilies();

// Sizes that a configuration class has defaults for and published files leave out.
struct TrunkDefaults {
  bool tied = false;
  double norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<int64_t> vocab_size = {};
  std::optional<int64_t> heads = {};
  std::optional<int64_t> kv_heads = {}; // otherwise as many as heads
};

// Most visits of a loop.
inline constexpr int64_t kMaxVisits = 1 << 14;

struct Trunk {
  int64_t hidden = 1;
  int64_t layers = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
};

// Vocabulary, hidden size, layers, heads, tying, norm epsilon, RoPE and the activation; problems when they do
// not fit.
Trunk readTrunk(ConfigReader &reader, Model &model, const TrunkDefaults &defaults = {});
// RoPE of `rope_theta`, `rope_scaling`, `rope_parameters` and `partial_rotary_factor`.
void readRope(ConfigReader &reader, Model &model, double default_theta);
// `torch_dtype`, and what a quantized checkpoint leaves out of the counts.
void readDtype(ConfigReader &reader, Model &model);
// hidden / heads unless the file has `head_dim` or there is a default; a problem when that is not whole.
int64_t readHeadDim(ConfigReader &reader, const Trunk &trunk, std::optional<int64_t> missing = {});
// Heads of `head_dim`, no biases or norms.
budget::GroupedAttention groupedAttention(const Trunk &trunk, int64_t head_dim);
void setBias(budget::GroupedAttention &attention, bool qkv, bool output);
// A problem when a token would use more experts than there are.
void checkTopK(ConfigReader &reader, const budget::ExpertMlp &mlp);

// `layer_types`, or the rule of the class when missing: what each layer attends to. `linear` says whether
// layers of the type "linear_attention" are allowed; they are marked so.
struct LayerType {
  budget::Reach reach = budget::Reach::full;
  bool linear = false;
};
std::vector<LayerType> readLayerTypes(ConfigReader &reader, int64_t layers, bool allow_linear,
                                      const std::function<LayerType(int64_t)> &rule);
// Sets the reach of a layer. A window that no position can leave is none.
void setReach(budget::Layer &layer, budget::Reach reach, int64_t window, int64_t longest);
// Context the model was made for; INT64_MAX when missing.
int64_t readLongest(ConfigReader &reader);

// Groups of alike layers in order.
std::vector<budget::LayerGroup> buildLayers(int64_t layers,
                                            const std::function<budget::Layer(int64_t)> &layer,
                                            int64_t visits = 1, bool looped = false);

// The layers of base_model_type kOwnLayers.
void readOwnLayers(ConfigReader &reader, Model &model);
// "segments" of a looped model, after its family was read: visits, and the heads that segments have of their
// own.
void readSegments(ConfigReader &reader, Model &model);

// Notes that a spec cannot say this.
void beyondSpec(Model &model, std::string what);
// The same, unless the key is missing or has the value that changes nothing.
void beyondUnless(ConfigReader &reader, Model &model, std::string_view key, double neutral);
void beyondUnless(ConfigReader &reader, Model &model, std::string_view key, bool neutral);
// A problem for each of the keys that is there and not null, false, 0 or empty: it changes the counts in a
// way that is not understood.
void refuseSwitchedOn(ConfigReader &reader, std::initializer_list<std::string_view> keys);

} // namespace smelt::hf
