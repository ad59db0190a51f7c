// Where every tensor of a model goes: which file, at which offset; and the files themselves.
#pragma once

#include "runtime/src/AtomicFile.h"
#include "runtime/src/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace smelt::weights {

struct PlacedTensor {
  std::string name;
  std::string dtype; // as safetensors spells it: "BF16"
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  size_t item = 0;     // what the caller knows the tensor by
  uint64_t offset = 0; // from the start of the tensor data, once placed
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

  uint64_t bytes() const; // of all files
};

struct LayoutOptions {
  std::string path; // FILE.safetensors
  // Largest number of tensor bytes in a file; 0: everything goes into `path`. When the tensors need more,
  // they go to FILE-00001-of-0000N.safetensors and so on, listed in FILE.safetensors.index.json.
  uint64_t shard_bytes = 0;
  std::map<std::string, std::string> metadata;
};

// Tensor data starts 64-byte aligned in every file. The format allows no gaps between tensors, so those whose
// sizes are multiples of 64 bytes come first and all start aligned; the others follow by falling alignment.
// SMELT_unsupported: a header would be longer than readers allow.
runtime::Status layOutShards(std::vector<PlacedTensor> tensors, const LayoutOptions &options,
                             ShardLayout &layout);

// SMELT_io unless the folder of `path` has `bytes` free.
runtime::Status checkFreeSpace(const std::string &path, uint64_t bytes);

// Creates every file, in the order of the shards and then the index, claims its space and writes all but the
// tensors. SMELT_io, also when there is too little space.
runtime::Result<std::vector<runtime::AtomicFile>> openShards(const ShardLayout &layout);

// Puts the files in place, the index last: a reader that finds it finds every file it names.
runtime::Status commitShards(std::vector<runtime::AtomicFile> &files);

// The files of a layout, the index, when there is one, first.
std::vector<std::string> shardPaths(const ShardLayout &layout);

} // namespace smelt::weights
