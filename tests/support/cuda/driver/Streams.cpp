// Streams, events, capture and graphs.
#include "tests/support/cuda/driver/State.h"

using namespace smelt::emu;

SMELT_CUDA_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  SMELT_CUDA_ENTER
  *stream = new CUstream_st;
  (*stream)->non_blocking = flags & CU_STREAM_NON_BLOCKING;
  driver.streams.insert(*stream);
  return CUDA_SUCCESS;
}
SMELT_CUDA_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  return cuStreamCreate(stream, flags);
}

SMELT_CUDA_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  SMELT_CUDA_ENTER
  if (!driver.streams.contains(stream)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const CUresult result = driver.drain(stream);
  driver.streams.erase(stream);
  delete stream;
  return result;
}

SMELT_CUDA_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  SMELT_CUDA_ENTER
  const CUstream stream = driver.stream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return driver.drain(stream);
}

SMELT_CUDA_EXPORT CUresult cuStreamQuery(CUstream handle) {
  SMELT_CUDA_ENTER
  const CUstream stream = driver.stream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  // Polling makes progress: one piece of work a call.
  if (!stream->queue.empty()) {
    const CUresult result = driver.drain(stream, stream->executed + 1);
    return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_READY;
  }
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, unsigned mode) {
  SMELT_CUDA_ENTER
  const CUstream stream = driver.stream(handle);
  if (!stream || stream == &driver.legacy) {
    return stream ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->capture) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto graph = new CUgraph_st;
  graph->origin = stream;
  graph->mode = mode;
  graph->thread = std::this_thread::get_id();
  driver.graphs.insert(graph);
  stream->capture = graph;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *result) {
  SMELT_CUDA_ENTER
  *result = nullptr;
  const CUstream stream = driver.stream(handle);
  if (!stream || !stream->capture) {
    return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  const CUgraph graph = stream->capture;
  if (graph->origin != stream) {
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  for (const CUstream other : driver.streams) {
    if (other->capture == graph) {
      other->capture = nullptr;
    }
  }
  for (const CUevent event : driver.events) {
    if (event->capture == graph) {
      event->capture = nullptr;
    }
  }
  graph->origin = nullptr;
  if (graph->invalid) {
    driver.graphs.erase(graph);
    delete graph;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  *result = graph;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *status) {
  SMELT_CUDA_ENTER
  const CUstream stream = driver.stream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  SMELT_CUDA_ENTER
  if (!driver.graphs.contains(graph)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; nodes && i < *count; ++i) {
    nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
  }
  *count = nodes ? std::min(*count, graph->nodes.size()) : graph->nodes.size();
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  SMELT_CUDA_ENTER
  *type = node->work.type;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                                       unsigned long long flags) {
  SMELT_CUDA_ENTER
  if (!driver.graphs.contains(graph)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *exec = new CUgraphExec_st;
  for (const auto &node : graph->nodes) {
    (*exec)->nodes.push_back(node->work);
  }
  driver.graph_execs.insert(*exec);
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node,
                                                 char *log, size_t log_bytes) {
  if (log && log_bytes) {
    *log = '\0';
  }
  if (error_node) {
    *error_node = nullptr;
  }
  return cuGraphInstantiateWithFlags(exec, graph, 0);
}

SMELT_CUDA_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  SMELT_CUDA_ENTER
  return driver.graph_execs.contains(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SMELT_CUDA_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  SMELT_CUDA_ENTER
  if (!driver.graph_execs.contains(exec)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return driver.enqueue(stream, CU_GRAPH_NODE_TYPE_KERNEL, [nodes = exec->nodes] {
    for (const Work &node : nodes) {
      if (const CUresult result = node.run(); result != CUDA_SUCCESS) {
        return result;
      }
    }
    return CUDA_SUCCESS;
  });
}

SMELT_CUDA_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  SMELT_CUDA_ENTER
  if (!driver.graph_execs.erase(exec)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  delete exec;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  SMELT_CUDA_ENTER
  if (!driver.graphs.contains(graph) || graph->origin) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  driver.graphs.erase(graph);
  delete graph;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  SMELT_CUDA_ENTER
  *event = new CUevent_st;
  (*event)->timing = !(flags & CU_EVENT_DISABLE_TIMING);
  driver.events.insert(*event);
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuEventRecord(CUevent event, CUstream handle) {
  SMELT_CUDA_ENTER
  const CUstream stream = driver.stream(handle);
  if (!driver.events.contains(event) || !stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (stream->capture) {
    event->capture = stream->capture;
    return CUDA_SUCCESS;
  }
  event->capture = nullptr;
  event->recorded = true;
  event->done = false;
  event->stream = stream;
  const CUresult result = driver.enqueue(handle, CU_GRAPH_NODE_TYPE_EMPTY, [event] {
    if (Driver::get().events.contains(event)) {
      event->done = true;
      event->time = std::chrono::steady_clock::now();
    }
    return CUDA_SUCCESS;
  });
  event->at = stream->enqueued;
  return result;
}
SMELT_CUDA_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return cuEventRecord(event, stream);
}

namespace {

/// Runs the stream that `event` was recorded in, up to it.
CUresult reach(CUevent event) {
  auto &driver = Driver::get();
  if (event->recorded && !event->done && driver.stream(event->stream)) {
    return driver.drain(event->stream, event->at);
  }
  return driver.sticky;
}

} // namespace

SMELT_CUDA_EXPORT CUresult cuEventSynchronize(CUevent event) {
  SMELT_CUDA_ENTER
  if (!driver.events.contains(event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->capture) {
    event->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return reach(event);
}

SMELT_CUDA_EXPORT CUresult cuEventQuery(CUevent event) {
  SMELT_CUDA_ENTER
  if (!driver.events.contains(event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->recorded && !event->done) {
    driver.drain(event->stream, event->stream->executed + 1);
    return driver.sticky != CUDA_SUCCESS ? driver.sticky : CUDA_ERROR_NOT_READY;
  }
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  SMELT_CUDA_ENTER
  if (!driver.events.contains(begin) || !driver.events.contains(end) || !begin->timing || !end->timing ||
      !begin->recorded || !end->recorded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!begin->done || !end->done) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return CUDA_SUCCESS;
}
SMELT_CUDA_EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin, CUevent end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}

SMELT_CUDA_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  SMELT_CUDA_ENTER
  if (!driver.events.erase(event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  delete event;
  return CUDA_SUCCESS;
}

SMELT_CUDA_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  SMELT_CUDA_ENTER
  const CUstream stream = driver.stream(handle);
  if (!stream || !driver.events.contains(event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (event->capture) {
    // A stream that waits for a captured event joins that capture.
    if (stream->capture && stream->capture != event->capture) {
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    stream->capture = event->capture;
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (!event->recorded) {
    return CUDA_SUCCESS;
  }
  return driver.enqueue(handle, CU_GRAPH_NODE_TYPE_EMPTY, [from = event->stream, at = event->at] {
    auto &driver = Driver::get();
    return driver.stream(from) ? driver.drain(from, at) : CUDA_SUCCESS;
  });
}
