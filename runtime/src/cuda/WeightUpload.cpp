#include "runtime/src/cuda/WeightUpload.h"

#include "runtime/src/ThreadPool.h"

#include <atomic>
#include <cstring>

namespace smelt::runtime::cuda {

using artifact::DeviceLayout;
using artifact::Weight;

void packRows(const PackedShape &shape, const uint16_t *tensor, uint64_t firstRow, uint64_t endRow,
              std::byte *out) {
  auto *to = reinterpret_cast<uint16_t *>(out);
  if (shape.layout != DeviceLayout::tiles) {
    for (uint64_t row = firstRow; row < endRow; ++row) {
      std::memcpy(to + (row - firstRow) * shape.strideColumns, tensor + row * shape.columns,
                  2 * shape.columns);
    }
    return;
  }
  uint64_t start = tiledOffset(shape.rows, shape.columns, firstRow, 0);
  for (uint64_t row = firstRow; row < endRow; ++row) {
    const uint16_t *from = tensor + row * shape.columns;
    for (uint64_t column = 0; column < shape.columns; column += 8) { // 8 columns lie together
      std::memcpy(to + tiledOffset(shape.rows, shape.columns, row, column) - start, from + column,
                  2 * std::min<uint64_t>(8, shape.columns - column));
    }
  }
}

namespace {

constexpr uint64_t pieceBytes = uint64_t(1) << 20; // about what a worker packs at a time

// Rows of one tensor and where they go on the device: [begin, end).
struct Piece {
  const PackedShape *shape = nullptr;
  const uint16_t *tensor = nullptr;
  uint64_t firstRow = 0, endRow = 0;
  uint64_t begin = 0, end = 0;
};

// The pieces of all tensors in the order of the device's memory.
class Pieces {
public:
  Pieces(const BoundWeights &weights, const DevicePlan &plan) : weights(weights), plan(plan) {
    const auto &table = *weights.artifact()->manifest().weights();
    for (uint32_t i = 0; i < table.size(); ++i) {
      const Weight &weight = *table.Get(i);
      for (uint32_t layer = 0; layer < std::max<uint32_t>(weight.layers(), 1); ++layer) {
        for (uint32_t expert = 0; expert < std::max<uint32_t>(weight.experts(), 1); ++expert) {
          add(i, layer, expert);
        }
      }
    }
  }
  std::vector<Piece> list;

private:
  void add(uint32_t index, uint32_t layer, uint32_t expert) {
    const WeightPlace &place = plan.weights[index];
    const PackedShape &shape = place.shape;
    uint64_t base = place.offset + layer * place.layerStride + expert * shape.bytes;
    uint64_t step = std::max<uint64_t>(pieceBytes / (2 * shape.strideColumns), 1);
    if (shape.layout == DeviceLayout::tiles) {
      step = roundUp(step, tileSize);
    }
    for (uint64_t row = 0; row < shape.rows; row += step) {
      Piece piece{&shape, static_cast<const uint16_t *>(weights.table(index, layer)[expert])};
      piece.firstRow = row;
      piece.endRow = std::min(row + step, shape.rows);
      piece.begin = base + 2 * row * shape.strideColumns;
      piece.end =
          piece.endRow == shape.rows ? base + shape.bytes : piece.begin + 2 * step * shape.strideColumns;
      list.push_back(piece);
    }
  }

  const BoundWeights &weights;
  const DevicePlan &plan;
};

// Pieces that fill one staging buffer, packed by all workers.
struct Batch {
  const Piece *pieces = nullptr;
  size_t count = 0;
  std::byte *out = nullptr;
  std::atomic<size_t> next{0};

  static void work(void *context, int32_t, int32_t) {
    Batch &batch = *static_cast<Batch *>(context);
    uint64_t base = batch.pieces[0].begin;
    for (size_t i; (i = batch.next.fetch_add(1)) < batch.count;) {
      const Piece &piece = batch.pieces[i];
      uint64_t end = i + 1 < batch.count ? batch.pieces[i + 1].begin : piece.end; // and the gap behind it
      std::memset(batch.out + (piece.begin - base), 0, end - piece.begin);
      packRows(*piece.shape, piece.tensor, piece.firstRow, piece.endRow, batch.out + (piece.begin - base));
    }
  }
};

struct Staging {
  PinnedMemory memory;
  OwnedEvent copied;
};

} // namespace

Status uploadWeights(DevicePointer device, const BoundWeights &weights, const DevicePlan &plan,
                     DevicePtr memory, Stream stream, uint32_t threads,
                     const std::function<bool(uint64_t, uint64_t)> &progress, uint64_t stagingBytes) {
  Pieces pieces(weights, plan);
  uint64_t largest = 0;
  for (const Piece &piece : pieces.list) {
    largest = std::max(largest, piece.end - piece.begin);
  }
  Staging staging[2];
  for (Staging &buffer : staging) {
    auto pinned = PinnedMemory::allocate(device, std::min(std::max(stagingBytes, largest), plan.weightBytes),
                                         "copying weights");
    auto event = createEvent(device, event_disable_timing);
    if (!pinned.ok() || !event.ok()) {
      return pinned.ok() ? event.takeStatus() : pinned.takeStatus();
    }
    buffer = {std::move(*pinned), std::move(*event)};
  }
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(int32_t(threads));
  if (!pool.ok()) {
    return pool.takeStatus();
  }
  // Gaps between tensors stay zero.
  Status status =
      device->check(device->api.memsetBytes(memory, 0, plan.weightBytes, stream), "clear the weights");
  bool used[2] = {};
  for (size_t first = 0, turn = 0; first < pieces.list.size() && status.ok(); turn ^= 1) {
    uint64_t begin = pieces.list[first].begin;
    if (progress && !progress(begin, plan.weightBytes)) {
      status = fail(SMELT_interrupted, "stopped while copying the weights");
      break;
    }
    Staging &buffer = staging[turn];
    size_t last = first;
    while (last < pieces.list.size() && pieces.list[last].end - begin <= buffer.memory.size()) {
      ++last;
    }
    if (used[turn]) {
      status = device->check(device->api.eventSynchronize(buffer.copied.get()), "copy weights");
    }
    Batch batch{.pieces = &pieces.list[first], .count = last - first, .out = buffer.memory.data()};
    (*pool)->run(Batch::work, &batch);
    uint64_t bytes = pieces.list[last - 1].end - begin;
    if (status.ok()) {
      status = device->check(device->api.memcpyToDevice(memory + begin, buffer.memory.data(), bytes, stream),
                             "copy weights");
    }
    if (status.ok()) {
      status = device->check(device->api.eventRecord(buffer.copied.get(), stream), "copy weights");
    }
    used[turn] = true;
    first = last;
  }
  Status end = device->check(device->api.streamSynchronize(stream), "copy weights");
  if (status.ok() && end.ok() && progress) {
    progress(plan.weightBytes, plan.weightBytes);
  }
  return status.ok() ? end : status;
}

} // namespace smelt::runtime::cuda
