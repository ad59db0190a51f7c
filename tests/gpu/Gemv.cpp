// How fast the matrix-vector kernels of short steps read weights, by how their warps share rows: kernels that
// smelt-gpu-kernels made (tests/gpu/kernels/GemvKernels.cpp).
#include "runtime/src/Splat.h"
#include "runtime/src/cuda/SplatKernel.h"
#include "runtime/src/cuda/WeightLayout.h"
#include "tests/gpu/Limits.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

namespace smelt::gpu {
namespace {

using namespace runtime;
using namespace runtime::cuda;
using nlohmann::ordered_json;

// Sets of operands in turn, so that caches hold none of a launch's weights.
constexpr uint64_t coldBytes = 512 << 20, mostSets = 64;

uint32_t setsOf(uint64_t bytes) {
  return uint32_t(std::clamp<uint64_t>((coldBytes + bytes - 1) / bytes, 2, mostSets));
}

float bf16Value(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// A matrix of hash weights.
struct HashMatrix {
  HashMatrix(const std::string &name, uint64_t rows, uint64_t columns)
      : rows(rows), columns(columns), tensor(splatTensor(1, name, std::array<uint64_t, 2>{rows, columns})) {}
  double at(uint64_t row, uint64_t column) const {
    return bf16Value(splatValue(tensor, uint32_t(row * columns + column)));
  }
  // The product of a row with x.
  double dot(uint64_t row, const float *x) const {
    double sum = 0;
    for (uint64_t column = 0; column < columns; ++column) {
      sum += at(row, column) * x[column];
    }
    return sum;
  }
  uint64_t rows, columns;
  SplatTensor tensor;
};

std::vector<float> activations(uint64_t count) {
  std::mt19937 random(1);
  std::vector<float> values(count);
  for (float &value : values) {
    value = float(int32_t(random() % 2001) - 1000) / 1000;
  }
  return values;
}

// |actual - expected| / |expected| of results that are added one by one.
class Comparison {
public:
  void add(double actual, double expected) {
    difference += (actual - expected) * (actual - expected);
    norm += expected * expected;
  }
  double error() const { return std::sqrt(difference / norm); }

private:
  double difference = 0, norm = 0;
};

// What a role reads and writes, `sets` times, each with weights of its own.
class Operands {
public:
  explicit Operands(const Bench &bench)
      : bench(bench), splat(bench.load(splatPtx().c_str())), tickets(bench.allocate(4 * 4096)) {
    bench.set(tickets, 0);
  }
  virtual ~Operands() = default;

  // Launches with set `index`; the kernel's last two parameters are scratch, of which it takes none, and
  // tickets.
  void launch(Function kernel, const unsigned (&blocks)[2], unsigned threads, unsigned sharedBytes,
              uint32_t index) {
    DevicePtr counters = tickets.address();
    std::vector<void *> parameters = own(index);
    parameters.insert(parameters.end(), {&counters, &counters});
    bench.expect(bench.device->api.launchKernel(kernel, blocks[0], blocks[1], 1, threads, 1, 1, sharedBytes,
                                                bench.stream.get(), parameters.data(), nullptr),
                 "launch a kernel");
  }
  virtual void clear() = 0;                 // the results
  virtual double relativeError() const = 0; // of some results of every set
  virtual std::string text() const = 0;

  uint32_t sets = 0;
  uint64_t bytes = 0; // of the weights of a set, without padding

protected:
  // Bindings and constants; the memory stays until the next call.
  virtual std::vector<void *> own(uint32_t index) = 0;

  void fill(DevicePtr address, const HashMatrix &matrix, uint64_t strideRows, uint64_t strideColumns,
            bool tiled) {
    uint32_t numbers[] = {uint32_t(strideRows * strideColumns),
                          uint32_t(matrix.rows),
                          uint32_t(matrix.columns),
                          uint32_t(strideRows),
                          uint32_t(strideColumns),
                          tiled,
                          uint32_t(matrix.tensor.key),
                          uint32_t(matrix.tensor.key >> 32)};
    SplatTensor tensor = matrix.tensor;
    std::vector<void *> parameters = {&address};
    for (uint32_t &number : numbers) {
      parameters.push_back(&number);
    }
    parameters.insert(parameters.end(), {&tensor.scale, &tensor.mean});
    bench.launch(bench.function(splat, "smelt_splat"), {(numbers[0] + 255) / 256, 256}, parameters.data());
  }
  DeviceMemory upload(const void *from, uint64_t bytes) const {
    DeviceMemory memory = bench.allocate(bytes);
    bench.upload(memory, from, bytes);
    bench.wait();
    return memory;
  }

  const Bench &bench;

private:
  OwnedModule splat;
  DeviceMemory tickets;
};

// experts_gate_up_direct of one token: h[choice] = silu(gate x) * (up x) of its expert.
class Experts : public Operands {
public:
  Experts(const Bench &bench, const ordered_json &params);
  void clear() override { bench.set(result, 0xff); }
  double relativeError() const override;
  std::string text() const override {
    return fmt::format("gate and up of {} experts of {} x {}", topK, features, hidden);
  }

protected:
  std::vector<void *> own(uint32_t index) override;

private:
  HashMatrix matrix(const char *kind, uint32_t expert) const {
    return {fmt::format("experts.{}.{}", expert, kind), features, hidden};
  }

  uint64_t hidden, features;
  uint32_t topK;
  std::vector<float> x;
  std::vector<int32_t> chosen; // [sets, topK]: every expert once
  DeviceMemory input, indices, gate, up, result;
  DevicePtr pointers[5] = {};
  int32_t tokens = 1;
};

Experts::Experts(const Bench &bench, const ordered_json &params)
    : Operands(bench), hidden(params["hidden"]), features(params["expert_hidden"]), topK(params["top_k"]),
      x(activations(hidden)) {
  uint64_t stride = expertStride(features, hidden);
  bytes = topK * 2 * features * hidden * 2;
  sets = setsOf(bytes);
  uint32_t experts = sets * topK;
  chosen.resize(experts);
  std::iota(chosen.begin(), chosen.end(), 0);
  std::shuffle(chosen.begin(), chosen.end(), std::mt19937(1));
  input = upload(x.data(), x.size() * 4);
  indices = upload(chosen.data(), chosen.size() * 4);
  gate = bench.allocate(experts * stride);
  up = bench.allocate(experts * stride);
  result = bench.allocate(uint64_t(experts) * features * 4);
  bench.set(gate, 0); // what lies between experts
  bench.set(up, 0);
  for (uint32_t expert = 0; expert < experts; ++expert) {
    uint64_t at = expert * stride;
    fill(gate.address() + at, matrix("gate", expert), paddedRows(features), paddedColumns(hidden), true);
    fill(up.address() + at, matrix("up", expert), paddedRows(features), paddedColumns(hidden), true);
  }
}

std::vector<void *> Experts::own(uint32_t index) {
  pointers[0] = input.address();
  pointers[1] = indices.address() + uint64_t(index) * topK * 4;
  pointers[2] = gate.address();
  pointers[3] = up.address();
  pointers[4] = result.address() + uint64_t(index) * topK * features * 4;
  return {&pointers[0], &pointers[1], &pointers[2], &pointers[3], &pointers[4], &tokens};
}

double Experts::relativeError() const {
  Comparison comparison;
  auto h = bench.download<float>(result);
  for (size_t slot = 0; slot < chosen.size(); ++slot) {
    HashMatrix gates = matrix("gate", uint32_t(chosen[slot])), ups = matrix("up", uint32_t(chosen[slot]));
    for (uint64_t sample = 0; sample < 8; ++sample) {
      uint64_t feature = (slot * 7919 + sample * features / 8) % features;
      double g = gates.dot(feature, x.data());
      comparison.add(h[slot * features + feature], g / (1 + std::exp(-g)) * ups.dot(feature, x.data()));
    }
  }
  return comparison.error();
}

// linear_residual of one token: y = before + scale * W x.
class Linear : public Operands {
public:
  Linear(const Bench &bench, const ordered_json &params);
  void clear() override { bench.set(result, 0xff); }
  double relativeError() const override;
  std::string text() const override { return fmt::format("a dense product of {} x {}", out, in); }

protected:
  std::vector<void *> own(uint32_t index) override;

private:
  HashMatrix matrix(uint32_t index) const { return {fmt::format("linear.{}", index), out, in}; }

  static constexpr float scale = 0.5F;
  uint64_t in, out;
  std::vector<float> x, before;
  DeviceMemory input, residual, weight, result;
  DevicePtr pointers[4] = {};
  int32_t tokens = 1;
  float factor = scale;
};

Linear::Linear(const Bench &bench, const ordered_json &params)
    : Operands(bench), in(params["in"]), out(params["out"]), x(activations(in)), before(activations(out)) {
  bytes = out * in * 2;
  sets = setsOf(bytes);
  uint64_t matrixBytes = out * rowStride(in) * 2;
  input = upload(x.data(), x.size() * 4);
  residual = upload(before.data(), before.size() * 4);
  weight = bench.allocate(sets * matrixBytes);
  result = bench.allocate(sets * out * 4);
  for (uint32_t index = 0; index < sets; ++index) {
    fill(weight.address() + index * matrixBytes, matrix(index), out, rowStride(in), false);
  }
}

std::vector<void *> Linear::own(uint32_t index) {
  pointers[0] = input.address();
  pointers[1] = weight.address() + index * out * rowStride(in) * 2;
  pointers[2] = residual.address();
  pointers[3] = result.address() + index * out * 4;
  return {&pointers[0], &pointers[1], &pointers[2], &pointers[3], &tokens, &factor};
}

double Linear::relativeError() const {
  Comparison comparison;
  auto y = bench.download<float>(result);
  for (uint32_t index = 0; index < sets; ++index) {
    HashMatrix weights = matrix(index);
    for (uint64_t sample = 0; sample < 16; ++sample) {
      uint64_t row = (index * 7919 + sample * out / 16) % out;
      comparison.add(y[index * out + row], before[row] + scale * weights.dot(row, x.data()));
    }
  }
  return comparison.error();
}

std::unique_ptr<Operands> operandsOf(const Bench &bench, const ordered_json &kernel) {
  if (kernel["role"] == "experts_gate_up_direct") {
    return std::make_unique<Experts>(bench, kernel["params"]);
  }
  if (kernel["role"] == "linear_residual") {
    return std::make_unique<Linear>(bench, kernel["params"]);
  }
  throw std::runtime_error(kernel["role"].get<std::string>() + ": no such kernel is known here");
}

std::string textOf(const ordered_json &kernel, const Operands &operands) {
  return fmt::format("{}, {} by {}{}", operands.text(), counted(kernel["rows"], "row"),
                     counted(kernel["warps"], "warp"), kernel["chosen"] ? ", the compiler's choice" : "");
}

// Seconds of a launch among others in a graph; throws when what it computes is wrong.
double timeKernel(const Bench &bench, const ordered_json &kernel, Operands &operands) {
  OwnedModule module = bench.load(kernel["ptx"].get<std::string>().c_str());
  Function function = bench.function(module, kernel["function"].get<std::string>().c_str());
  unsigned blocks[2] = {kernel["blocks"][0], kernel["blocks"][1]};
  unsigned threads = kernel["threads"], sharedBytes = kernel["shared_bytes"];
  bench.expect(
      bench.device->api.functionSetAttribute(function, function_max_dynamic_shared_bytes, int(sharedBytes)),
      "give a kernel so much shared memory");
  operands.clear();
  OwnedGraphExec graph = bench.capture([&] {
    for (uint32_t index = 0; index < operands.sets; ++index) {
      operands.launch(function, blocks, threads, sharedBytes, index);
    }
  });
  double seconds = bench.time([&] { bench.replay(graph); }) / operands.sets;
  double error = operands.relativeError();
  if (!(error < 1e-4)) { // a NaN is wrong as well
    throw std::runtime_error(
        fmt::format("{} differs by {:.1e} from what it should be", textOf(kernel, operands), error));
  }
  return seconds;
}

} // namespace

void measureGemv(const Bench &bench, const std::string &path, ordered_json &results) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error(path + ": cannot be read");
  }
  ordered_json kernels = ordered_json::parse(file);
  std::string role;
  std::unique_ptr<Operands> operands;
  for (const ordered_json &kernel : kernels) {
    uint32_t capability = kernel["capability"], here = bench.device->computeCapability;
    if (kernel["exact"] ? here != capability : here < capability) {
      return skip(results, "rows by how many warps",
                  fmt::format("the kernels are for {}", kernel["target"].get<std::string>()));
    }
    if (kernel["role"] != role) {
      operands.reset(); // before there are the next: they may be large
      operands = operandsOf(bench, kernel);
      role = kernel["role"];
    }
    double seconds = timeKernel(bench, kernel, *operands);
    std::string text = textOf(kernel, *operands);
    double rate = double(operands->bytes) / seconds;
    fmt::print("  {}: {:.2f} us, {:.1f} GB/s\n", text, seconds * 1e6, rate * 1e-9);
    results["gemv"].push_back({{"what", text},
                               {"role", role},
                               {"params", kernel["params"]},
                               {"rows", kernel["rows"]},
                               {"warps", kernel["warps"]},
                               {"chosen", kernel["chosen"]},
                               {"seconds", seconds},
                               {"bytes", operands->bytes},
                               {"bytes_per_second", rate}});
  }
}

} // namespace smelt::gpu
