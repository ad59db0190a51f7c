// What the GPU can do at most, part by part. Each prints lines, adds to `results`, and throws when a kernel
// computes something else than it should.
#pragma once

#include "tests/gpu/Bench.h"

namespace smelt::gpu {

// Bytes a second that kernels read from `bytes` of memory, the highest of all ways: loads (`reads`) and, from
// compute capability 9.0 on, bulk copies to shared memory (`bulk_reads`). `read_rate` says which.
double measureReads(const Bench &bench, uint64_t bytes, nlohmann::ordered_json &results);

// Seconds a node of a graph adds that does nothing. `graph_nodes`: this, nodes that read what the one before
// wrote, and both with programmatic edges, from compute capability 9.0 on.
double measureGraphNodes(const Bench &bench, nlohmann::ordered_json &results);

// How long all blocks of a grid wait for each other, one block a multiprocessor, so many rounds in a launch
// (`grid_barriers`).
void measureGridBarrier(const Bench &bench, uint32_t rounds, nlohmann::ordered_json &results);

// How long cuBLASLt takes for products of bf16 matrices in this form, with pointers or rows aligned to 16 to
// 2 bytes (`products`), weights from memory and not from a cache.
void measureProducts(const Bench &bench, const std::vector<ProductShape> &shapes,
                     nlohmann::ordered_json &results);

// How fast the kernels of this file, which smelt-gpu-kernels made, read weights that no cache holds (`gemv`).
void measureGemv(const Bench &bench, const std::string &path, nlohmann::ordered_json &results);

} // namespace smelt::gpu
