// State behind the handles: one device, one primary context, streams as queues of work that runs when
// somebody waits for it.
#pragma once

#include "tests/support/cuda/driver/DriverTypes.h"
#include "tests/support/cuda/sim/Cta.h"

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

namespace smelt::emu {

/// What the environment says of the device, read anew at each use.
struct DeviceIdentity {
  uint32_t sm = 90;          ///< SMELT_TEST_CUDA_SM
  std::string name;          ///< SMELT_TEST_CUDA_NAME
  uint64_t memory_bytes = 0; ///< SMELT_TEST_CUDA_MEMORY, in MiB
  int driver_version = 0;    ///< SMELT_TEST_CUDA_DRIVER, 13000 for 13.0
  int devices = 1;           ///< SMELT_TEST_CUDA_DEVICES
  int multiprocessors = 0;   ///< SMELT_TEST_CUDA_MULTIPROCESSORS
  uint32_t shared_optin = 0; ///< bytes of dynamic shared memory a CTA may ask for
};
DeviceIdentity deviceIdentity();
SimOptions simOptions();

/// Writes a line to SMELT_TEST_CUDA_LOG, or to stderr.
void logLine(const std::string &text);

using WorkFn = std::function<CUresult()>;
struct Work {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_KERNEL;
  WorkFn run;
};

} // namespace smelt::emu

struct CUgraphNode_st {
  smelt::emu::Work work;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  bool invalid = false; ///< a call broke the capture
  CUstream origin = nullptr;
  unsigned mode = 0;
  std::thread::id thread; ///< that began the capture
};
struct CUgraphExec_st {
  std::vector<smelt::emu::Work> nodes;
};
struct CUstream_st {
  std::deque<smelt::emu::Work> queue;
  uint64_t enqueued = 0, executed = 0;
  bool non_blocking = false;
  CUgraph capture = nullptr;
};
struct CUevent_st {
  bool timing = true, recorded = false, done = false;
  std::chrono::steady_clock::time_point time;
  CUstream stream = nullptr;
  uint64_t at = 0;           ///< position in the stream's queue
  CUgraph capture = nullptr; ///< recorded while that capture ran
};
struct CUfunc_st {
  smelt::emu::Program program;
};
struct CUmod_st {
  std::shared_ptr<const smelt::emu::Module> source;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
  smelt::emu::VariableAddresses variables;
};

namespace smelt::emu {

class Driver {
public:
  static Driver &get();
  std::recursive_mutex mutex;
  bool initialised = false;
  int context_references = 0;
  static thread_local bool context_current; ///< of the calling thread, as cuCtxSetCurrent has it
  CUresult sticky = CUDA_SUCCESS;           ///< a fault of device code: every later call returns it
  std::set<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUmodule> modules;
  std::set<CUfunction> functions;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> graph_execs;
  CUstream_st legacy; ///< the null stream

  /// The state of a handle; null if it is none. 0, 1 and 2 name the default streams.
  CUstream stream(CUstream handle);
  /// Queues work, or records it if the stream is captured.
  CUresult enqueue(CUstream handle, CUgraphNodeType type, WorkFn run);
  /// Runs what `stream` holds up to position `until`.
  CUresult drain(CUstream stream, uint64_t until = ~uint64_t(0));
  CUresult drainAll();
  /// CUDA_SUCCESS, or why no work may be done now.
  CUresult ready() const;
  /// What a call that no capture may contain returns while one runs; it breaks the capture.
  CUresult captureForbids();
};

/// Guards an entry point: takes the lock and returns early if there is no usable context.
#define SMELT_CUDA_ENTER                                                                                     \
  auto &driver = smelt::emu::Driver::get();                                                                  \
  const std::lock_guard lock(driver.mutex);                                                                  \
  if (const CUresult unusable = driver.ready(); unusable != CUDA_SUCCESS) {                                  \
    return unusable;                                                                                         \
  }
/// The same for calls that synchronise or allocate, which captures forbid.
#define SMELT_CUDA_ENTER_UNCAPTURED                                                                          \
  SMELT_CUDA_ENTER                                                                                           \
  if (const CUresult captured = driver.captureForbids(); captured != CUDA_SUCCESS) {                         \
    return captured;                                                                                         \
  }

/// Host address of a device range, or null if no allocation holds all of it.
uint8_t *deviceRange(CUdeviceptr address, size_t bytes, bool write);

/// What a launch asks for beside its shape.
struct LaunchMode {
  bool cooperative = false;  ///< all CTAs are resident at once
  bool programmatic = false; ///< may start before the launch before it has ended
};
CUresult launchKernel(CUfunction function, Dim3 grid, Dim3 block, uint32_t shared_bytes, CUstream stream,
                      void **params, void **extra, LaunchMode mode = {});

} // namespace smelt::emu
