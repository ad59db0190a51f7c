#include "tests/support/cuda/driver/State.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace smelt::emu {
namespace {

uint64_t environment(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 0) : otherwise;
}

/// Dynamic shared memory a CTA may opt in to, by compute capability.
uint32_t sharedOptin(uint32_t sm) {
  switch (sm) {
  case 80:
  case 87:
    return 163 * 1024;
  case 90:
  case 100:
  case 103:
    return 227 * 1024;
  default:
    return 99 * 1024;
  }
}

} // namespace

DeviceIdentity deviceIdentity() {
  DeviceIdentity identity;
  identity.sm = static_cast<uint32_t>(environment("SMELT_TEST_CUDA_SM", 90));
  const char *name = std::getenv("SMELT_TEST_CUDA_NAME");
  identity.name = name ? name : "smeltc test device";
  identity.memory_bytes = environment("SMELT_TEST_CUDA_MEMORY", 80 * 1024) << 20;
  identity.driver_version = static_cast<int>(environment("SMELT_TEST_CUDA_DRIVER", 13000));
  identity.devices = static_cast<int>(environment("SMELT_TEST_CUDA_DEVICES", 1));
  identity.multiprocessors = static_cast<int>(environment("SMELT_TEST_CUDA_MULTIPROCESSORS", 132));
  identity.shared_optin = sharedOptin(identity.sm);
  return identity;
}

SimOptions simOptions() {
  SimOptions options;
  options.check = environment("SMELT_TEST_CUDA_CHECK", 1) != 0;
  options.seed = environment("SMELT_TEST_CUDA_SEED", 0);
  options.track_writes = environment("SMELT_TEST_CUDA_UNWRITTEN", 0) != 0;
  return options;
}

void logLine(const std::string &text) {
  const char *path = std::getenv("SMELT_TEST_CUDA_LOG");
  FILE *file = path && *path ? std::fopen(path, "a") : nullptr;
  std::fprintf(file ? file : stderr, "smelt test CUDA: %s\n", text.c_str());
  if (file) {
    std::fclose(file);
  }
}

thread_local bool Driver::context_current = false;

Driver &Driver::get() {
  static Driver driver;
  return driver;
}

CUresult Driver::ready() const {
  return !initialised                                  ? CUDA_ERROR_NOT_INITIALIZED
         : !context_current || context_references == 0 ? CUDA_ERROR_INVALID_CONTEXT
                                                       : sticky;
}

CUresult Driver::captureForbids() {
  for (const CUgraph graph : graphs) {
    const bool mine =
        graph->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (graph->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && graph->thread == std::this_thread::get_id());
    if (graph->origin && mine) {
      graph->invalid = true;
      logLine(
          "a call that no stream capture may contain was made while one runs; the capture is invalid now");
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

CUstream Driver::stream(CUstream handle) {
  if (reinterpret_cast<uintptr_t>(handle) <= 2) {
    return &legacy;
  }
  return streams.contains(handle) ? handle : nullptr;
}

CUresult Driver::enqueue(CUstream handle, CUgraphNodeType type, WorkFn run) {
  const CUstream to = stream(handle);
  if (!to) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (to->capture) {
    if (to->capture->invalid) {
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    auto node = std::make_unique<CUgraphNode_st>();
    node->work = {type, std::move(run)};
    to->capture->nodes.push_back(std::move(node));
    return CUDA_SUCCESS;
  }
  // The default stream and the streams created without CU_STREAM_NON_BLOCKING wait for each other.
  if (to == &legacy) {
    if (const CUresult captured = captureForbids(); captured != CUDA_SUCCESS) {
      return captured;
    }
    for (const CUstream other : streams) {
      if (!other->non_blocking) {
        drain(other);
      }
    }
  } else if (!to->non_blocking) {
    drain(&legacy);
  }
  to->queue.push_back({type, std::move(run)});
  ++to->enqueued;
  const char *blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  return blocking && *blocking == '1' ? drain(to) : CUDA_SUCCESS;
}

CUresult Driver::drain(CUstream stream, uint64_t until) {
  while (!stream->queue.empty() && stream->executed < until) {
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    ++stream->executed;
    if (sticky != CUDA_SUCCESS) {
      continue;
    }
    if (const CUresult result = work.run(); result != CUDA_SUCCESS && sticky == CUDA_SUCCESS) {
      sticky = result;
    }
  }
  return sticky;
}

CUresult Driver::drainAll() {
  drain(&legacy);
  for (const CUstream stream : streams) {
    drain(stream);
  }
  return sticky;
}

uint8_t *deviceRange(CUdeviceptr address, size_t bytes, bool write) {
  Allocation *allocation = deviceMemory().find(address, bytes);
  if (!allocation) {
    return nullptr;
  }
  if (write) {
    allocation->markWritten(address - allocation->begin, bytes);
  }
  return allocation->host + (address - allocation->begin);
}

} // namespace smelt::emu

// Hooks for the other test libraries and for tests.

/// Host address of `bytes` bytes at a device address, or null. Marks them written if `write`.
SMELT_CUDA_EXPORT void *smelt_test_cuda_host_address(uint64_t address, size_t bytes, int write) {
  return smelt::emu::deviceRange(address, bytes, write != 0);
}

/// Queues host code on a stream as if it were a kernel; captured like one. `destroy` frees `data`.
SMELT_CUDA_EXPORT int smelt_test_cuda_enqueue(void *stream, int (*run)(void *), void *data,
                                              void (*destroy)(void *)) {
  SMELT_CUDA_ENTER
  const std::shared_ptr<void> owned(data, destroy);
  return driver.enqueue(static_cast<CUstream>(stream), CU_GRAPH_NODE_TYPE_KERNEL,
                        [run, owned] { return static_cast<CUresult>(run(owned.get())); });
}

/// Device allocations that are alive: for leak checks.
SMELT_CUDA_EXPORT size_t smelt_test_cuda_live_allocations() {
  const std::lock_guard lock(smelt::emu::Driver::get().mutex);
  return smelt::emu::deviceMemory().leaks().size();
}

/// Counts from now on how often kernels access each byte of the allocation that begins at `address`. False if
/// there is none.
SMELT_CUDA_EXPORT bool smelt_test_cuda_count_accesses(uint64_t address) {
  const std::lock_guard lock(smelt::emu::Driver::get().mutex);
  smelt::emu::Allocation *allocation = smelt::emu::deviceMemory().find(address);
  if (!allocation || allocation->begin != address) {
    return false;
  }
  smelt::emu::deviceMemory().counting = true;
  allocation->counts = std::make_unique<smelt::emu::AccessCounts>();
  allocation->counts->reads.assign(allocation->bytes, 0);
  allocation->counts->writes.assign(allocation->bytes, 0);
  return true;
}

/// The counts so far, a byte each, of all bytes of that allocation. Null if nobody counts them.
SMELT_CUDA_EXPORT const uint8_t *smelt_test_cuda_access_counts(uint64_t address, bool writes) {
  const std::lock_guard lock(smelt::emu::Driver::get().mutex);
  const smelt::emu::Allocation *allocation = smelt::emu::deviceMemory().find(address);
  const auto *counts = allocation && allocation->begin == address ? allocation->counts.get() : nullptr;
  return !counts ? nullptr : writes ? counts->writes.data() : counts->reads.data();
}

/// Where the only device allocation of so many bytes begins; 0 if there is none, or more than one.
SMELT_CUDA_EXPORT uint64_t smelt_test_cuda_allocation_of(size_t bytes) {
  const std::lock_guard lock(smelt::emu::Driver::get().mutex);
  uint64_t found = 0, count = 0;
  for (const smelt::emu::Allocation *allocation : smelt::emu::deviceMemory().leaks()) {
    if (!allocation->pinned && allocation->bytes == bytes) {
      found = allocation->begin;
      ++count;
    }
  }
  return count == 1 ? found : 0;
}

/// Forgets a sticky error, so that one process can test several faults. No counterpart in the real driver.
SMELT_CUDA_EXPORT void smelt_test_cuda_clear_error() {
  auto &driver = smelt::emu::Driver::get();
  const std::lock_guard lock(driver.mutex);
  driver.sticky = CUDA_SUCCESS;
}
