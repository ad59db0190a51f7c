#include "runtime/src/cuda/WeightUpload.h"

#include "runtime/src/ThreadPool.h"
#include "runtime/src/cuda/PackKernel.h"

#include <atomic>
#include <cstring>

namespace smelt::runtime::cuda {

using artifact::Weight;

namespace {

// Some rows of one tensor, or all: what is copied at once.
struct Part {
  const PackedShape *shape = nullptr;
  const std::byte *from = nullptr; // in the file
  uint64_t rows = 0;               // of a plain tensor: 1, whatever it has
  uint64_t bytes = 0;              // in the file
  uint64_t to = 0;                 // in the memory of the weights
};

// The parts of all tensors in the order of the device's memory.
class Parts {
public:
  Parts(const BoundWeights &weights, const DevicePlan &plan) : weights(weights), plan(plan) {
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
  std::vector<Part> list;

private:
  void add(uint32_t index, uint32_t layer, uint32_t expert) {
    const WeightPlace &place = plan.weights[index];
    const PackedShape &shape = place.shape;
    auto *from = static_cast<const std::byte *>(weights.table(index, layer)[expert]);
    uint64_t to = place.offset + layer * place.layerStride + expert * shape.bytes;
    if (shape.isPlain()) {
      addPlain(shape, from, to);
      return;
    }
    uint64_t rowBytes = 2 * shape.columns;
    uint64_t step = std::max(plan.stagingBytes / rowBytes / shape.rowStep(), uint64_t(1)) * shape.rowStep();
    for (uint64_t row = 0; row < shape.rows; row += step) {
      uint64_t rows = std::min(step, shape.rows - row);
      list.push_back(
          {&shape, from + row * rowBytes, rows, rows * rowBytes, to + 2 * row * shape.strideColumns});
    }
  }

  void addPlain(const PackedShape &shape, const std::byte *from, uint64_t to) {
    uint64_t bytes = 2 * shape.rows * shape.columns;
    for (uint64_t done = 0; done < bytes; done += plan.stagingBytes) {
      list.push_back({&shape, from + done, 1, std::min(plan.stagingBytes, bytes - done), to + done});
    }
  }

  const BoundWeights &weights;
  const DevicePlan &plan;
};

// Parts that fill one buffer, each from a multiple of 16 bytes on.
struct Chunk {
  Chunk(const std::vector<Part> &list, size_t first, uint64_t capacity) {
    for (uint64_t used = 0; first + offsets.size() < list.size(); used = roundUp(end, 16)) {
      const Part &part = list[first + offsets.size()];
      if (used + part.bytes > capacity) {
        break;
      }
      offsets.push_back(used);
      end = used + part.bytes;
    }
    parts = std::span(list).subspan(first, offsets.size());
  }
  // Where the run of parts from `i` on ends that `same` puts together.
  size_t runFrom(size_t i, auto same) const {
    size_t last = i + 1;
    while (last < parts.size() && same(last)) {
      ++last;
    }
    return last;
  }

  std::span<const Part> parts;
  std::vector<uint64_t> offsets; // by part, into the buffer
  uint64_t end = 0;
};

// All workers copy a chunk into a pinned buffer.
class Filling {
public:
  Filling(const Chunk &chunk, std::byte *out) {
    constexpr uint64_t most = uint64_t(1) << 20; // about what a worker copies at a time
    for (size_t i = 0; i < chunk.parts.size(); ++i) {
      const Part &part = chunk.parts[i];
      for (uint64_t done = 0; done < part.bytes; done += most) {
        spans.push_back({part.from + done, out + chunk.offsets[i] + done, std::min(most, part.bytes - done)});
      }
    }
  }
  static void work(void *context, int32_t, int32_t) {
    Filling &filling = *static_cast<Filling *>(context);
    for (size_t i; (i = filling.next.fetch_add(1)) < filling.spans.size();) {
      const Span &span = filling.spans[i];
      std::memcpy(span.to, span.from, span.bytes);
    }
  }

private:
  struct Span {
    const std::byte *from;
    std::byte *to;
    uint64_t bytes;
  };
  std::vector<Span> spans;
  std::atomic<size_t> next{0};
};

class Upload {
public:
  Upload(DevicePointer device, DevicePtr memory, Stream packing, uint64_t bytes)
      : device(std::move(device)), api(this->device->api), memory(memory), packing(packing), bytes(bytes) {}

  Status prepare(uint32_t threads, uint64_t weightBytes) {
    Result<PackKernel> loaded = PackKernel::load(device);
    Result<OwnedStream> stream = createStream(device);
    Result<OwnedEvent> event = createEvent(device, event_disable_timing);
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(int32_t(threads));
    Status status = loaded.ok() ? success() : loaded.takeStatus();
    status = status.ok() && !stream.ok() ? stream.takeStatus() : status;
    status = status.ok() && !event.ok() ? event.takeStatus() : status;
    status = status.ok() && !pool.ok() ? pool.takeStatus() : status;
    for (Buffer &buffer : buffers) {
      status = status.ok() ? prepare(buffer) : status;
    }
    if (!status.ok()) {
      return status;
    }
    kernel = std::move(*loaded);
    copying = std::move(*stream);
    cleared = std::move(*event);
    workers = std::move(*pool);
    return clear(weightBytes);
  }

  // Starts to bring a chunk to its places, when the buffers it takes are free.
  Status add(const Chunk &chunk) {
    Buffer &buffer = buffers[turn];
    turn ^= 1;
    if (buffer.used) {
      if (Status status = check(api.eventSynchronize(buffer.copied.get())); !status.ok()) {
        return status;
      }
    }
    Filling filling(chunk, buffer.pinned.data());
    workers->run(Filling::work, &filling);
    Status status =
        buffer.used ? check(api.streamWaitEvent(copying.get(), buffer.packed.get(), 0)) : success();
    buffer.used = true;
    status = status.ok() ? copy(chunk, buffer) : status;
    status = status.ok() ? check(api.eventRecord(buffer.copied.get(), copying.get())) : status;
    status = status.ok() ? check(api.streamWaitEvent(packing, buffer.copied.get(), 0)) : status;
    status = status.ok() ? pack(chunk, buffer) : status;
    return status.ok() ? check(api.eventRecord(buffer.packed.get(), packing)) : status;
  }

  // Waits, whatever happened: the buffers are freed.
  Status finish() {
    Status status = copying ? check(api.streamSynchronize(copying.get())) : success();
    Status end = check(api.streamSynchronize(packing));
    return status.ok() ? end : status;
  }

private:
  struct Buffer {
    PinnedMemory pinned;
    DeviceMemory staged; // at the same offsets
    OwnedEvent copied, packed;
    bool used = false;
  };

  Status check(Code code) const { return device->check(code, "copy weights"); }

  Status prepare(Buffer &buffer) {
    auto pinned = PinnedMemory::allocate(device, bytes, "copying weights");
    auto staged = DeviceMemory::allocate(device, bytes, "packing weights");
    auto copied = createEvent(device, event_disable_timing),
         packed = createEvent(device, event_disable_timing);
    if (!pinned.ok() || !staged.ok()) {
      return pinned.ok() ? staged.takeStatus() : pinned.takeStatus();
    }
    if (!copied.ok() || !packed.ok()) {
      return copied.ok() ? packed.takeStatus() : copied.takeStatus();
    }
    buffer = {std::move(*pinned), std::move(*staged), std::move(*copied), std::move(*packed)};
    return success();
  }

  // Gaps between tensors stay zero.
  Status clear(uint64_t weightBytes) {
    Status status = device->check(api.memsetBytes(memory, 0, weightBytes, packing), "clear the weights");
    status = status.ok() ? check(api.eventRecord(cleared.get(), packing)) : status;
    return status.ok() ? check(api.streamWaitEvent(copying.get(), cleared.get(), 0)) : status;
  }

  Status copy(const Chunk &chunk, const Buffer &buffer) {
    Status status = success();
    for (size_t i = 0, last; i < chunk.parts.size() && status.ok(); i = last) {
      bool plain = chunk.parts[i].shape->isPlain();
      last = plain ? i + 1 : chunk.runFrom(i, [&](size_t k) { return !chunk.parts[k].shape->isPlain(); });
      uint64_t begin = chunk.offsets[i], end = chunk.offsets[last - 1] + chunk.parts[last - 1].bytes;
      DevicePtr to = plain ? memory + chunk.parts[i].to : buffer.staged.address() + begin;
      status = check(api.memcpyToDevice(to, buffer.pinned.data() + begin, end - begin, copying.get()));
    }
    return status;
  }

  // Experts behind each other are one launch.
  Status pack(const Chunk &chunk, const Buffer &buffer) {
    Status status = success();
    for (size_t i = 0, last; i < chunk.parts.size() && status.ok(); i = last) {
      const Part &part = chunk.parts[i];
      last = chunk.runFrom(i, [&](size_t k) {
        const Part &next = chunk.parts[k];
        return k - i < maxPackCount && next.shape == part.shape && next.rows == part.rows &&
               next.to == part.to + (k - i) * part.shape->bytes;
      });
      if (!part.shape->isPlain()) {
        PackJob job{.from = buffer.staged.address() + chunk.offsets[i],
                    .to = memory + part.to,
                    .fromStride = roundUp(part.bytes, 16),
                    .toStride = part.shape->bytes,
                    .count = uint32_t(last - i),
                    .rows = part.rows};
        status = kernel.launch(*part.shape, job, packing);
      }
    }
    return status;
  }

  DevicePointer device;
  const DriverApi &api;
  DevicePtr memory;
  Stream packing;
  uint64_t bytes; // of a buffer
  OwnedStream copying;
  OwnedEvent cleared;
  PackKernel kernel;
  std::unique_ptr<ThreadPool> workers;
  Buffer buffers[2];
  size_t turn = 0;
};

} // namespace

Status uploadWeights(DevicePointer device, const BoundWeights &weights, const DevicePlan &plan,
                     DevicePtr memory, Stream stream, uint32_t threads,
                     const std::function<bool(uint64_t, uint64_t)> &progress) {
  Parts parts(weights, plan);
  Upload upload(std::move(device), memory, stream, plan.stagingBytes);
  Status status = upload.prepare(threads, plan.weightBytes);
  for (size_t first = 0; first < parts.list.size() && status.ok();) {
    if (progress && !progress(parts.list[first].to, plan.weightBytes)) {
      status = fail(SMELT_interrupted, "stopped while copying the weights");
      break;
    }
    Chunk chunk(parts.list, first, plan.stagingBytes);
    status = upload.add(chunk);
    first += chunk.parts.size();
  }
  Status end = upload.finish();
  if (status.ok() && end.ok() && progress) {
    progress(plan.weightBytes, plan.weightBytes);
  }
  return status.ok() ? end : status;
}

} // namespace smelt::runtime::cuda
