// What the kernels of a decode layer load and store, counted byte by byte on the look-alike device, against
// the byte formula.
#include "tests/compiler/Codegen/CUDA/PublishedCell.h"

#include "compiler/Codegen/CUDA/WeightPacking.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>

using namespace smelt::codegen;
using namespace smelt::codegen::test;
using Layout = Weights::Layout;

namespace {

constexpr float EPS = 1e-5f;
// Warps without rows of their own load the last ones again, which are in the cache then.
constexpr int64_t MOST_REPEATED = 4;

// Every byte of the matrix was loaded once, but for a few rows.
bool readOnce(const WeightTraffic &traffic) {
  return traffic.unread_bytes == 0 && traffic.repeated_rows <= MOST_REPEATED;
}

bool all(const std::vector<uint8_t> &counts, uint8_t value) {
  return std::all_of(counts.begin(), counts.end(), [&](uint8_t count) { return count == value; });
}

// Matrices of kernels of one layer, counted.
class Traffic {
public:
  Weights &matrix(Layout layout, int64_t rows, int64_t columns, int64_t matrices = 1) {
    matrices_.push_back(std::make_unique<Weights>(layout, rows, columns, 1, 0.02f, 0.0f, matrices));
    matrices_.back()->countAccesses();
    elementBytes += 2 * rows * columns * matrices;
    return *matrices_.back();
  }
  // What was loaded, when every matrix was read once.
  WeightTraffic sum() const {
    WeightTraffic all;
    for (const auto &matrix : matrices_) {
      WeightTraffic traffic = matrix->traffic();
      CHECK(traffic.unread_bytes == 0);
      CHECK(traffic.repeated_rows <= MOST_REPEATED);
      all.bytes += traffic.bytes;
      all.padding_bytes += traffic.padding_bytes;
    }
    return all;
  }
  int64_t elementBytes = 0;

private:
  std::vector<std::unique_ptr<Weights>> matrices_;
};

// A buffer that a kernel fills, every byte once.
class Output {
public:
  explicit Output(size_t bytes) : buffer(blank(bytes)) { buffer.countAccesses(); }
  ~Output() { CHECK(all(buffer.writes(), 1)); }
  uint64_t address() const { return buffer.address(); }

private:
  smelt::tests::DeviceBuffer buffer;
};

} // namespace

TEST_CASE("a decode layer of the 1.6B cell reads its 70.48 MB of weights once, in six kernels") {
  constexpr int64_t hidden = Cell::hidden, query = Cell::query, kv = Cell::kv, dim = Cell::dim;
  constexpr int64_t experts = Cell::experts, topK = Cell::topK, features = Cell::features, q = query * dim;
  constexpr int64_t stride = cuda::rowStride(dim), capacity = 128;
  constexpr int32_t position = 100;
  Cell cell = publishedCell();
  Traffic weights;
  Weights norm(Layout::vector, 1, hidden, 2, 0.1f, 1.0f);
  auto x = uploadFloats(randomFloats(hidden, 3)), ids = uploadInts({0}), positions = uploadInts({position});
  const size_t slotBytes = 2 * kv * capacity * stride;
  auto run = [&](size_t kernel, const std::vector<uint64_t> &bindings,
                 const std::vector<int32_t> &constants) {
    CAPTURE(cell.layer[kernel].kernel.role);
    DeviceKernel(cell.layer[kernel]).run(bindings, constants, {.tokens = 1, .positions = capacity});
  };
  {
    Weights &wq = weights.matrix(Layout::rows, q, hidden),
            &wk = weights.matrix(Layout::rows, kv * dim, hidden),
            &wv = weights.matrix(Layout::rows, kv * dim, hidden);
    auto table = uploadFloats(Floats(capacity * dim, 0.5f)), keys = blank(slotBytes),
         values = blank(slotBytes);
    keys.countAccesses();
    values.countAccesses();
    Output out(4 * q);
    run(0,
        {x.address(), norm.address(), wq.address(), wk.address(), wv.address(), positions.address(),
         ids.address(), table.address(), out.address(), keys.address(), values.address()},
        {1, capacity, bitsOf(EPS), bitsOf(EPS)});
    for (const auto *slot : {&keys, &values}) {
      std::vector<uint8_t> writes = slot->writes();
      CHECK(std::accumulate(writes.begin(), writes.end(), int64_t(0)) == 2 * kv * dim);
    }
  }
  {
    // Every key and value up to the position once: the query heads of a kv head share them.
    auto keys = blank(slotBytes), values = blank(slotBytes);
    keys.write(std::vector<uint16_t>(slotBytes / 2, roundToBf16(0.5f)));
    values.write(std::vector<uint16_t>(slotBytes / 2, roundToBf16(0.5f)));
    keys.countAccesses();
    values.countAccesses();
    auto queries = uploadFloats(randomFloats(q, 4));
    Output out(4 * q);
    run(1,
        {queries.address(), positions.address(), ids.address(), keys.address(), values.address(),
         out.address()},
        {1, capacity});
    for (const auto *slot : {&keys, &values}) {
      std::vector<uint8_t> reads = slot->reads();
      for (int64_t head = 0; head < kv; ++head) {
        int64_t repeated = 0;
        for (int64_t p = 0; p < capacity; ++p) {
          auto begin = reads.begin() + 2 * (head * capacity + p) * stride;
          std::vector<uint8_t> row(begin, begin + 2 * stride);
          CAPTURE(head, p);
          CHECK((p <= position ? *std::min_element(row.begin(), row.end()) >= 1 : all(row, 0)));
          repeated += p <= position && !all(row, 1);
        }
        CHECK(repeated <= 2); // of each of two spans the last, by lanes that have no position left
      }
    }
  }
  {
    Output out(4 * hidden);
    auto attended = uploadFloats(randomFloats(q, 5));
    run(2,
        {attended.address(), weights.matrix(Layout::rows, hidden, q).address(), x.address(), out.address()},
        {1, bitsOf(0.5f)});
  }
  {
    Output normed(4 * hidden), indices(4 * topK), chosen(4 * topK);
    run(3,
        {x.address(), norm.address(), weights.matrix(Layout::rows, experts, hidden).address(),
         normed.address(), indices.address(), chosen.address()},
        {1, bitsOf(EPS)});
  }
  // Only the chosen experts are here: another would be out of bounds.
  auto indices = uploadInts({3, 0, 7, 2, 5, 1, 6, 4});
  {
    Output h(4 * topK * features);
    run(4,
        {x.address(), indices.address(), weights.matrix(Layout::tiles, features, hidden, topK).address(),
         weights.matrix(Layout::tiles, features, hidden, topK).address(), h.address()},
        {1});
  }
  {
    Output out(4 * hidden);
    auto h = uploadFloats(randomFloats(topK * features, 6)), chosen = uploadFloats(Floats(topK, 0.125f));
    run(5,
        {h.address(), indices.address(), chosen.address(),
         weights.matrix(Layout::tiles, hidden, features, topK).address(), x.address(), out.address()},
        {1, bitsOf(0.5f)});
  }

  // The formula counts the two norms as well, which every block reads: they stay in the caches.
  int64_t formula = 0, flops = 0;
  for (const cuda::KernelRequest &request : cell.layer) {
    Work work = workOf(request.kernel);
    formula += work.weight_bytes;
    flops += work.flops;
  }
  CHECK(formula == 70'482'720);
  CHECK(flops == formula - 2 * 2 * hidden); // two a weight of a matrix, which is two bytes
  CHECK(weights.elementBytes == formula - 2 * 2 * hidden);
  // 8 columns of padding behind 1848 and behind 616.
  constexpr int64_t padding = 2 * 8 * topK * (2 * features + hidden);
  WeightTraffic moved = weights.sum();
  CHECK(moved.padding_bytes == padding);
  int64_t repeated = moved.bytes - moved.padding_bytes - weights.elementBytes;
  CHECK(repeated >= 0);
  CHECK(repeated <= 3 * MOST_REPEATED * 2 * hidden);
}

TEST_CASE("a weight that is loaded twice is counted twice") {
  constexpr int64_t in = 520, out = 64;
  auto request = brief("linear_residual", {{"in", in}, {"out", out}, {"dtype", 1}});
  auto x = uploadFloats(randomFloats(in, 1)), before = uploadFloats(randomFloats(out, 2)),
       after = blank(4 * out);
  auto trafficOf = [&](const std::function<void(std::string &)> &edit) {
    Weights weights(Layout::rows, out, in, 3);
    weights.countAccesses();
    DeviceKernel(request, "sm_90a", edit)
        .run({x.address(), weights.address(), before.address(), after.address()}, {1, bitsOf(1.0f)}, {});
    return weights.traffic();
  };
  WeightTraffic sound = trafficOf({}), doubled = trafficOf([](std::string &ptx) {
                                         size_t load = ptx.find("ld.global.nc.L1::no_allocate.v4.b32"),
                                                end = ptx.find(';', load) + 1;
                                         REQUIRE(end != 0);
                                         ptx.insert(end, " " + ptx.substr(load, end - load));
                                       });
  CHECK(readOnce(sound));
  CHECK(sound.bytes == 2 * out * in);
  CHECK_FALSE(readOnce(doubled));
  CHECK(doubled.repeated_rows == out);
  WeightTraffic skipped = trafficOf([](std::string &ptx) {
    size_t load = ptx.find("ld.global.nc.L1::no_allocate.v4.b32");
    size_t begin = ptx.rfind('\n', load), end = ptx.find('\n', load);
    REQUIRE(load != std::string::npos);
    ptx.erase(begin, end - begin);
  });
  CHECK(skipped.unread_bytes > 0);
}
