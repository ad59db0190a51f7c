// The toy model as a GPU runs it: the same tables with two step programs of kernels written in PTX by hand,
// and bf16 weights in device layouts.
#pragma once

#include "tests/runtime/ToyModel.h"

namespace smelt::tests {

constexpr uint32_t toyShortTokens = 4; // what the first program takes

// A sound manifest with one device target, "cuda:sm_80", whose PTX lies behind the toy's CPU code.
artifact::ManifestT cudaToyManifest(const ToyShape &shape = {});
// The code section of that manifest.
std::string cudaToyCode();
// The PTX alone, without the zero byte at its end.
std::string cudaToyPtx();

// toyWeights rounded to bf16, in which the device computes exactly what the reference does.
ToyWeights cudaToyWeights(const ToyShape &shape = {});
// Their file.
std::string cudaToySafetensors(const ToyWeights &weights);

// toyManifest with the tensor shapes of cudaToyManifest: f32, for the CPU. Splat weights are the same in
// both.
artifact::ManifestT cpuTwinManifest(const ToyShape &shape = {});

} // namespace smelt::tests
