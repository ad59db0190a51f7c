#include "compiler/Weights/QuantizeWeights.h"

#include "compiler/Weights/ShardLayout.h"
#include "runtime/src/Quantize.h"
#include "runtime/src/Text.h"
#include "runtime/src/WeightFiles.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <set>
#include <thread>

namespace smelt::weights {

namespace {

using runtime::AtomicFile;
using runtime::printable;
using runtime::quantBlocks;
using runtime::Result;
using runtime::Status;
using runtime::TensorEntry;
using runtime::WeightFile;

constexpr const char *scale_suffix = "_scale";
constexpr const char *embedding_name = "model.embed_tokens.weight";
constexpr const char *head_name = "lm_head.weight";
// Weights a thread works on at a time: whole rows, about a megabyte of f32.
constexpr uint64_t piece_weights = 1 << 18;

struct Source {
  const TensorEntry *entry;
  const std::byte *data;
  spec::WeightRole role;
  bool quantized;

  bool isF32() const { return entry->dtype == "F32"; }
  uint64_t rows() const { return entry->shape.size() == 2 ? entry->shape[0] : 1; }
  uint64_t columns() const { return entry->shape.back(); }
};

// Where a tensor of the output lies.
struct Place {
  size_t shard = 0;
  uint64_t offset = 0; // in the file
};

// The tensors of the inputs, once all of them are known to be fit.
class Inputs {
public:
  Status open(const std::vector<std::string> &paths) {
    Result<std::vector<WeightFile>> opened = runtime::openWeightFiles(paths);
    if (!opened.ok()) {
      return opened.takeStatus();
    }
    files = std::move(*opened);
    std::map<std::string_view, const WeightFile *> owner;
    for (const WeightFile &file : files) {
      bytes += file.file.bytes().size();
      for (const TensorEntry &entry : file.header.tensors) {
        if (auto [place, isNew] = owner.try_emplace(entry.name, &file); !isNew) {
          problems.add(fmt::format("'{}' is in {} and {}", printable(entry.name), place->second->file.path(),
                                   file.file.path()));
          continue;
        }
        add(file, entry);
      }
    }
    dropTiedHead();
    // However the input is cut into files, the output is the same.
    std::ranges::sort(sources, {}, [](const Source &source) { return source.entry->name; });
    return verdict();
  }

  std::vector<Source> sources;
  std::vector<WeightFile> files;
  uint64_t bytes = 0;

private:
  void add(const WeightFile &file, const TensorEntry &entry) {
    std::string name = printable(entry.name);
    std::optional<spec::WeightRole> role = spec::weightRoleOf(entry.name);
    if (entry.dtype == "I8" || entry.name.ends_with(scale_suffix)) {
      if (quantized_files.insert(&file).second) { // once, not for every tensor
        problems.add(
            fmt::format("{}: is quantised already, see '{}' {}", file.file.path(), name, entry.dtype));
      }
      return;
    }
    if (!role) {
      return problems.add(fmt::format("'{}' is no tensor of a spec; docs/spec.md lists them", name));
    }
    if (entry.dtype != "F32" && entry.dtype != "BF16") {
      return problems.add(fmt::format("'{}' is {}, only F32 and BF16 can be quantised", name, entry.dtype));
    }
    bool quantized = spec::isQuantized(*role);
    if (entry.shape.empty() || entry.shape.size() > 2 || (quantized && entry.shape.size() != 2)) {
      return problems.add(fmt::format("'{}' has the shape {}, {} expected", name,
                                      runtime::formatShape(entry.shape),
                                      quantized ? "a matrix is" : "a vector or matrix is"));
    }
    if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end()) {
      return problems.add(
          fmt::format("'{}' has the shape {}, without elements", name, runtime::formatShape(entry.shape)));
    }
    sources.push_back({&entry, file.file.bytes().data() + entry.begin, *role, quantized});
  }

  // A file may repeat the embedding as the head of a model that ties them, which has none.
  void dropTiedHead() {
    auto find = [&](std::string_view name) {
      return std::find_if(sources.begin(), sources.end(),
                          [&](const Source &s) { return s.entry->name == name; });
    };
    auto head = find(head_name), embedding = find(embedding_name);
    if (head == sources.end() || embedding == sources.end()) {
      return;
    }
    const TensorEntry &a = *head->entry, &b = *embedding->entry;
    if (a.dtype == b.dtype && a.hasShape(b.shape) &&
        std::memcmp(head->data, embedding->data, a.end - a.begin) == 0) {
      sources.erase(head);
    }
  }

  Status verdict() {
    if (sources.empty() && problems.empty()) {
      return runtime::fail(SMELT_weights, "there are no tensors to quantise");
    }
    if (problems.empty()) {
      return runtime::success();
    }
    return runtime::fail(SMELT_weights,
                         fmt::format("the weights cannot be quantised ({} problem{}):{}", problems.size(),
                                     problems.size() == 1 ? "" : "s", problems.text()));
  }

  runtime::ProblemList problems;
  std::set<const WeightFile *> quantized_files;
};

std::vector<PlacedTensor> outputTensors(const std::vector<Source> &sources) {
  std::vector<PlacedTensor> tensors;
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source &source = sources[i];
    std::vector<int64_t> shape(source.entry->shape.begin(), source.entry->shape.end());
    uint64_t elements = source.rows() * source.columns();
    if (!source.quantized) {
      tensors.push_back({.name = std::string(source.entry->name),
                         .dtype = "BF16",
                         .shape = shape,
                         .bytes = 2 * elements,
                         .item = 2 * i});
      continue;
    }
    auto blocks = quantBlocks(source.columns());
    tensors.push_back({.name = std::string(source.entry->name),
                       .dtype = "I8",
                       .shape = shape,
                       .bytes = elements,
                       .item = 2 * i});
    tensors.push_back({.name = std::string(source.entry->name) + scale_suffix,
                       .dtype = "BF16",
                       .shape = {shape[0], static_cast<int64_t>(blocks)},
                       .bytes = 2 * source.rows() * blocks,
                       .item = 2 * i + 1});
  }
  return tensors;
}

// A run of rows of one tensor.
struct Piece {
  size_t source;
  uint64_t begin, end; // rows
};

class Quantizer {
public:
  Quantizer(const Inputs &inputs, const ShardLayout &layout, std::vector<AtomicFile> &files,
            const QuantizeOptions &options)
      : inputs(inputs), files(files), options(options), places(2 * inputs.sources.size()) {
    for (size_t shard = 0; shard < layout.shards.size(); ++shard) {
      for (const PlacedTensor &tensor : layout.shards[shard].tensors) {
        places[tensor.item] = {shard, layout.shards[shard].header.size() + tensor.offset};
      }
    }
    for (size_t i = 0; i < inputs.sources.size(); ++i) {
      const Source &source = inputs.sources[i];
      uint64_t step = std::max<uint64_t>(1, piece_weights / source.columns());
      for (uint64_t begin = 0; begin < source.rows(); begin += step) {
        pieces.push_back({i, begin, std::min(source.rows(), begin + step)});
      }
      total += source.rows() * source.columns();
    }
    errors.resize(pieces.size());
  }

  Status run(QuantizeResult &result) {
    unsigned threads = options.threads ? options.threads : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads; ++i) {
      others.emplace_back([this] { work(/*reports=*/false); });
    }
    work(/*reports=*/true);
    for (std::thread &other : others) {
      other.join();
    }
    if (failure.ok() && !broken.empty()) {
      failure = runtime::fail(SMELT_weights,
                              fmt::format("NaN and infinity cannot be quantised ({} tensor{}):{}",
                                          broken.size(), broken.size() == 1 ? "" : "s", broken.text()));
    }
    // In the order of the pieces, so that the sums do not depend on the threads.
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Source &source = inputs.sources[pieces[i].source];
      if (source.quantized) {
        result.errors[source.role].add(errors[i]);
        result.total.add(errors[i]);
      }
    }
    return failure;
  }

private:
  void work(bool reports) {
    Buffers buffers;
    for (size_t i = next++; i < pieces.size() && !stop; i = next++) {
      if (options.cancelled && options.cancelled()) {
        return fail(runtime::fail(SMELT_interrupted, "interrupted; nothing was written"));
      }
      if (Status status = convert(pieces[i], buffers, errors[i]); !status.ok()) {
        return fail(std::move(status));
      }
      const Source &source = inputs.sources[pieces[i].source];
      done += (pieces[i].end - pieces[i].begin) * source.columns();
      if (reports && options.progress) {
        options.progress(done, total);
      }
    }
  }

  struct Buffers {
    std::vector<float> values;
    std::vector<int8_t> codes;
    std::vector<uint16_t> halves; // scales, or kept values
  };

  Status convert(const Piece &piece, Buffers &buffers, QuantError &error) {
    const Source &source = inputs.sources[piece.source];
    uint64_t rows = piece.end - piece.begin, columns = source.columns(), count = rows * columns;
    const std::byte *from = source.data + piece.begin * columns * (source.isF32() ? 4 : 2);
    buffers.values.resize(count);
    if (source.isF32()) {
      std::memcpy(buffers.values.data(), from, count * 4); // the file may be unaligned
    } else {
      buffers.halves.resize(count);
      std::memcpy(buffers.halves.data(), from, count * 2);
      if (!source.quantized) {
        return write(2 * piece.source, piece.begin * columns * 2, buffers.halves.data(), count * 2);
      }
      runtime::widenBf16(buffers.halves.data(), buffers.values.data(), count);
    }
    if (!source.quantized) {
      buffers.halves.resize(count);
      runtime::roundToBf16(buffers.values.data(), buffers.halves.data(), count);
      return write(2 * piece.source, piece.begin * columns * 2, buffers.halves.data(), count * 2);
    }
    uint64_t blocks = quantBlocks(columns);
    buffers.codes.resize(count);
    buffers.halves.resize(rows * blocks);
    for (uint64_t row = 0; row < rows; ++row) {
      const float *values = &buffers.values[row * columns];
      int8_t *codes = &buffers.codes[row * columns];
      uint16_t *scales = &buffers.halves[row * blocks];
      if (!runtime::quantizeRow(values, columns, codes, scales)) {
        std::lock_guard lock(mutex);
        broken.add(fmt::format("'{}', row {}", printable(source.entry->name), piece.begin + row));
        return runtime::success(); // the others are looked at too
      }
      error.addRow(values, columns, codes, scales);
    }
    if (Status status = write(2 * piece.source, piece.begin * columns, buffers.codes.data(), count);
        !status.ok()) {
      return status;
    }
    return write(2 * piece.source + 1, piece.begin * blocks * 2, buffers.halves.data(), rows * blocks * 2);
  }

  Status write(size_t item, uint64_t offset, const void *data, uint64_t bytes) {
    return files[places[item].shard].writeAt(places[item].offset + offset,
                                             {static_cast<const std::byte *>(data), bytes});
  }

  void fail(Status status) {
    std::lock_guard lock(mutex);
    if (failure.ok()) {
      failure = std::move(status);
    }
    stop = true;
  }

  const Inputs &inputs;
  std::vector<AtomicFile> &files;
  const QuantizeOptions &options;
  std::vector<Place> places; // by item: 2 * source, and 2 * source + 1 for its scales
  std::vector<Piece> pieces;
  std::vector<QuantError> errors; // by piece
  uint64_t total = 0;
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  Status failure;
  runtime::ProblemList broken;
};

// A shard of the output that replaced an input would change what is being read.
Status checkApart(const Inputs &inputs, const ShardLayout &layout) {
  for (const std::string &path : shardPaths(layout)) {
    for (const WeightFile &file : inputs.files) {
      std::error_code ignored;
      if (std::filesystem::equivalent(path, file.file.path(), ignored)) {
        return runtime::fail(SMELT_io,
                             fmt::format("{}: is read from and would be written; give another -o", path));
      }
    }
  }
  return runtime::success();
}

} // namespace

Result<QuantizeResult> quantizeWeights(const QuantizeOptions &options) {
  Inputs inputs;
  if (Status status = inputs.open(options.inputs); !status.ok()) {
    return status;
  }
  LayoutOptions placement{
      options.output,
      options.shard_bytes,
      {{"format", "pt"}, {"producer", "smeltc weights quantize"}, {"quantization", "int8-block32"}}};
  ShardLayout layout;
  if (Status status = layOutShards(outputTensors(inputs.sources), placement, layout); !status.ok()) {
    return status;
  }
  if (Status status = checkApart(inputs, layout); !status.ok()) {
    return status;
  }
  Result<std::vector<AtomicFile>> files = openShards(layout);
  if (!files.ok()) {
    return files.takeStatus();
  }
  QuantizeResult result;
  if (Status status = Quantizer(inputs, layout, *files, options).run(result); !status.ok()) {
    return status;
  }
  if (Status status = commitShards(*files); !status.ok()) {
    return status;
  }
  result.files = shardPaths(layout);
  result.input_bytes = inputs.bytes;
  result.output_bytes = layout.bytes();
  for (const Source &source : inputs.sources) {
    ++(source.quantized ? result.tensors : result.kept);
    result.rounded |= !source.quantized && source.isF32();
  }
  return result;
}

} // namespace smelt::weights
