// Semantic verification of a manifest whose FlatBuffer structure is already known to be sound: after it,
// every index is in range, every size is large enough for the kernels that use it, and no sum or product
// overflows. Nothing of an artifact runs before this has passed.
#pragma once

#include "runtime/src/Text.h"

#include <cstddef>
#include <cstdint>

namespace smelt::artifact {
enum class DType : uint8_t;
struct Manifest;
struct Size;
struct Weight;
} // namespace smelt::artifact

namespace smelt::runtime {

struct ProgramTables;

// Bounds far above any real model, so that a hostile file cannot make the runtime allocate without limit.
constexpr uint64_t maxTensors = 1 << 22;
constexpr uint64_t maxLaunches = 1 << 20;
constexpr uint64_t maxSlots = 1 << 20;
constexpr uint64_t maxScratchBytes = uint64_t(1) << 30;
constexpr uint64_t maxBindings = 64;
constexpr uint64_t maxConstants = 64;

// Every problem of the manifest; empty when it is sound. `code`: the code section.
ProblemList verifyManifest(const artifact::Manifest &manifest, std::span<const std::byte> code);

// Parts of verifyManifest. `where` starts every problem.
// Buffers and kernels of a step program.
void verifyProgramTables(const ProgramTables &tables, const std::string &where, ProblemList &problems);
// Blocks and calls; needs the tables to be sound.
void verifyProgram(const ProgramTables &tables, const std::string &where, ProblemList &problems);
// Everything about devices; needs the weights to be sound.
void verifyDevices(const artifact::Manifest &manifest, std::span<const std::byte> code,
                   ProblemList &problems);

// Of one element of a weight; the scales of i8 come on top.
uint64_t elementBytes(artifact::DType dtype);
// Bytes of one tensor, the scales of i8 included; 0 when the shape is empty, holds a 0, overflows, or is
// that of no matrix though i8.
uint64_t tensorBytes(const artifact::Weight &weight);
// True when every component of `have` is at least that of `need`.
bool covers(const artifact::Size &have, const artifact::Size &need);
// "64 + 128*T + 4*R"
std::string formatSize(const artifact::Size &size);

} // namespace smelt::runtime
