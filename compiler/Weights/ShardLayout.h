// Where every tensor of a model goes: which file, at which offset.
#pragma once

#include "compiler/Weights/InitWeights.h"

namespace smelt::weights {

struct PlacedTensor {
  std::string name;
  std::vector<int64_t> shape;
  Distribution distribution;
  uint64_t bytes = 0;
  uint64_t offset = 0; // from the start of the tensor data
};

// One safetensors file: `header` (length prefix, JSON and padding), then the tensors without gaps.
struct Shard {
  std::string path;
  std::string header;
  std::vector<PlacedTensor> tensors; // by offset
  uint64_t data_bytes = 0;

  uint64_t fileBytes() const { return header.size() + data_bytes; }
};

struct ShardLayout {
  std::vector<Shard> shards;
  std::string index_path; // empty when one file holds everything
  std::string index_json;
};

// Tensor data starts 64-byte aligned in every file. The format allows no gaps between tensors, so those whose
// sizes are multiples of 64 bytes come first and all start aligned; the others follow by falling alignment.
runtime::Status layOutShards(const spec::ModelSpec &spec, const InitOptions &options, ShardLayout &layout);

} // namespace smelt::weights
