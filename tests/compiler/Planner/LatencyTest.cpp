// The roofline against figures worked out by hand, and against what it must obey for any model.
#include "compiler/Planner/Latency.h"

#include "compiler/Budget/Accounting.h"
#include "compiler/Budget/Context.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace smelt;
using namespace smelt::planner;
using budget::Architecture;

namespace {

// One that does nothing but move bytes and multiply: the roofline itself.
DeviceModel ideal(double bandwidth) {
  return {.name = "ideal",
          .bf16_flops = 990e12,
          .f32_flops = 60e12,
          .memory_bandwidth = bandwidth,
          .memory_bytes = 141e9,
          .cache_bandwidth = 2 * bandwidth,
          .cache_bytes = 50e6};
}

// A looped model of 51.9 B parameters: 30 layers, of which the middle 15 run twice.
Architecture bigCell() {
  const budget::Layer layer{.attention =
                                budget::GroupedAttention{.query_heads = 36, .kv_heads = 9, .head_dim = 42},
                            .ffn = budget::ExpertMlp{.experts = 504, .top_k = 8, .width = 616}};
  return {.name = "big",
          .vocab_size = 65536,
          .hidden_size = 1848,
          .groups = {{.layer = layer, .layers = 7},
                     {.layer = layer, .layers = 15, .visits = 2, .looped = true},
                     {.layer = layer, .layers = 8}}};
}

Latency predict(const Architecture &model, const LatencyRequest &request) {
  const std::optional<Latency> latency = predictLatency(model, request);
  REQUIRE(latency);
  return *latency;
}

LatencyRequest decode(DeviceModel device, int64_t batch, int64_t context) {
  return {.device = std::move(device),
          .step = {.phase = Phase::decode, .batch = batch, .positions = context}};
}

LatencyRequest prefill(DeviceModel device, int64_t prompt) {
  return {.device = std::move(device), .step = {.phase = Phase::prefill, .batch = 1, .positions = prompt}};
}

double rounded(double value, double step) { return std::round(value / step) * step; }

// Models with everything an architecture can have.
Architecture mixedModel() {
  const budget::Layer grouped{
      .attention = budget::GroupedAttention{.query_heads = 8, .kv_heads = 2, .head_dim = 16},
      .reach = budget::Reach::sliding,
      .window = 100,
      .ffn = budget::ExpertMlp{.experts = 16, .top_k = 2, .width = 48, .shared_width = 32}};
  const budget::Layer latent{
      .attention =
          budget::LatentAttention{
              .heads = 8, .query_rank = 24, .kv_rank = 32, .nope_dim = 16, .rope_dim = 8, .value_dim = 16},
      .ffn = budget::DenseMlp{.width = 200}};
  const budget::Layer linear{
      .attention =
          budget::LinearAttention{
              .key_heads = 2, .value_heads = 4, .key_dim = 16, .value_dim = 16, .conv_kernel = 4},
      .ffn = budget::DenseMlp{.width = 200}};
  return {.name = "mixed",
          .vocab_size = 1000,
          .hidden_size = 64,
          .groups = {{.layer = grouped, .layers = 3, .visits = 2, .looped = true},
                     {.layer = latent, .layers = 2},
                     {.layer = linear, .layers = 1}},
          .adapters = {{.name = "a", .inputs = 128, .outputs = 64, .executions = 2}}};
}

} // namespace

TEST_CASE("expected distinct experts under uniform routing") {
  // 504 experts of which a token takes 8: E (1 - (1 - k/E)^B).
  const std::pair<int64_t, int64_t> table[] = {{1, 8},    {4, 31},   {8, 61},    {16, 114},
                                               {32, 202}, {64, 323}, {128, 439}, {256, 496}};
  for (const auto &[batch, distinct] : table) {
    CAPTURE(batch);
    CHECK(std::llround(expectedDistinctExperts(504, 8, batch)) == distinct);
  }
  CHECK(expectedDistinctExperts(8, 8, 3) == 8);
  CHECK(expectedDistinctExperts(16, 2, 1) == 2);
  // Two tokens choose the same of two experts half of the time.
  CHECK(expectedDistinctExperts(2, 1, 2) == 1.5);
  CHECK(expectedDistinctExperts(504, 8, int64_t{1} << 50) == 504);
}

TEST_CASE("bytes of one token of a 1.6B cell") {
  // In bf16, per executed layer: QKV 1848 x 2268, output 1512 x 1848, router 1848 x 504, gate and up of 8
  // experts 8 x 2 x 1848 x 616 and down half of that: 70.48 MB. 45 layers are executed.
  const Latency latency = predict(bigCell(), decode(ideal(4.8e12), 1, 1024));
  const double layer = latency[LatencyPart::attention].bytes + latency[LatencyPart::router].bytes +
                       latency[LatencyPart::experts].bytes;
  CHECK(layer == 45.0 * 2 * (1848 * 2268 + 1512 * 1848 + 1848 * 504 + 8 * 3 * 1848 * 616));
  CHECK(layer / 45 == 70'475'328);
  // 2 x 9 x 42 numbers of two bytes for each position and executed layer: 68.0 kB.
  CHECK(latency[LatencyPart::cache].bytes == 68'040.0 * 1024);
  CHECK(latency[LatencyPart::head].bytes == 2.0 * 65536 * 1848);
  CHECK(latency.distinct_experts == 8);
  // Six kernels for each executed layer, the embedding and the head.
  CHECK(latency.total.launches == 6 * 45 + 2);
  CHECK(latency.total.limit() == Limit::bandwidth);
}

TEST_CASE("the bandwidth floor of a 1.6B cell") {
  // Batch, GB a step, ms at 4.8 and at 4.3 TB/s, with a context of 1024 and a vocabulary of 65536.
  const std::array<double, 4> table[] = {
      {1, 3.5, 0.73, 0.81},   {4, 10.8, 2.26, 2.52},   {8, 20.1, 4.19, 4.68},   {16, 37.1, 7.72, 8.62},
      {32, 65.3, 13.6, 15.2}, {64, 104.7, 21.8, 24.3}, {128, 144.8, 30.2, 33.7}};
  for (const auto &[batch, gigabytes, at_peak, at_copy] : table) {
    CAPTURE(batch);
    const auto sequences = static_cast<int64_t>(batch);
    const Latency peak = predict(bigCell(), decode(ideal(4.8e12), sequences, 1024));
    const Latency copy = predict(bigCell(), decode(ideal(4.3e12), sequences, 1024));
    const double step = at_peak < 10 ? 0.01 : 0.1;
    CHECK(rounded(peak.total.bytes / 1e9, 0.1) == Approx(gigabytes).margin(0.051));
    CHECK(rounded(1e3 * peak.total.seconds, step) == Approx(at_peak).margin(1.001 * step));
    CHECK(rounded(1e3 * copy.total.seconds, step) == Approx(at_copy).margin(1.001 * step));
  }
  // The two of batch 1 exactly as rounded.
  CHECK(rounded(1e3 * predict(bigCell(), decode(ideal(4.8e12), 1, 1024)).total.seconds, 0.01) ==
        Approx(0.73));
  CHECK(rounded(1e3 * predict(bigCell(), decode(ideal(4.3e12), 1, 1024)).total.seconds, 0.01) ==
        Approx(0.81));
  // A prompt of 512 tokens reads nearly every expert once for each visit: 155.6 GB, 36 ms; one of 32 takes
  // 15 ms.
  CHECK(predict(bigCell(), prefill(ideal(4.3e12), 512)).total.bytes / 1e9 == Approx(155.6).epsilon(0.003));
  CHECK(std::round(1e3 * predict(bigCell(), prefill(ideal(4.3e12), 512)).total.seconds) == 36);
  CHECK(std::round(1e3 * predict(bigCell(), prefill(ideal(4.3e12), 32)).total.seconds) == 15);
}

TEST_CASE("launches of a 1.6B cell") {
  // 1.3 us for each of 6 x 45 kernels: 351 us.
  DeviceModel device = ideal(4.8e12);
  const double without = predict(bigCell(), decode(device, 1, 1024)).total.seconds;
  device.launch_seconds = 1.3e-6;
  const Latency latency = predict(bigCell(), decode(device, 1, 1024));
  CHECK(latency.total.seconds - without == Approx(272 * 1.3e-6));
  CHECK(latency[LatencyPart::router].limit() == Limit::launch);
  CHECK(latency[LatencyPart::experts].limit() == Limit::bandwidth);
}

TEST_CASE("the roofs of two cores for a model of 928 M parameters") {
  // 12 layers of 1024, 16/4 heads of 64, 64 experts of 352 of which 8 are used, vocabulary 32000: 337.8 MB a
  // token in bf16; at 35.5 GB/s 105 tokens/s, in f32 52.6; 512 tokens of a prompt are 145.8 GFLOP, at 469
  // GFLOP/s 1647 tokens/s.
  const budget::Layer layer{.attention = budget::GroupedAttention{.query_heads = 16,
                                                                  .kv_heads = 4,
                                                                  .head_dim = 64,
                                                                  .qk_norm = spec::QkNorm::per_head},
                            .ffn = budget::ExpertMlp{.experts = 64, .top_k = 8, .width = 352}};
  const Architecture model{
      .name = "mid", .vocab_size = 32000, .hidden_size = 1024, .groups = {{.layer = layer, .layers = 12}}};
  DeviceModel cpu = *shippedDevice("cpu-avx512");
  CHECK(cpu.memory_bandwidth == 35.5e9);
  cpu = cpu.atPeak();
  LatencyRequest request = decode(cpu, 1, 1);
  CHECK(1 / predict(model, request).total.seconds == Approx(105).epsilon(0.005));
  request.weights = NumberFormat::f32;
  CHECK(1 / predict(model, request).total.seconds == Approx(52.6).epsilon(0.005));
  const Latency prompt = predict(model, prefill(cpu, 512));
  CHECK(prompt.total.flops / 1e9 == Approx(145.8).epsilon(0.005));
  CHECK(512 / prompt.total.seconds == Approx(1647).epsilon(0.01));
  CHECK(prompt.total.limit() == Limit::compute);
}

TEST_CASE("FLOPs of a prefill are the budget's") {
  for (const Architecture &model : {bigCell(), mixedModel()}) {
    const int64_t length = 300;
    const budget::Account account = *budget::accountFor(model, budget::Context::causal(length)).account;
    const Latency latency = predict(model, prefill(ideal(1e12), length));
    const double layers = latency.total.flops - latency[LatencyPart::head].flops;
    CHECK(layers ==
          Approx(static_cast<double>(account.forward_flops) * static_cast<double>(length)).epsilon(1e-6));
    CHECK(latency[LatencyPart::head].flops == static_cast<double>(account.head_flops));
    // Every weight but the embedding table is read, those of experts nearly, looped ones again.
    CHECK(latency[LatencyPart::embedding].bytes == 2.0 * static_cast<double>(length * model.hidden_size));
  }
}

TEST_CASE("what decode reads of the cache") {
  Architecture model = mixedModel();
  const auto cacheBytes = [&](int64_t batch, int64_t context) {
    return predict(model, decode(ideal(1e12), batch, context))[LatencyPart::cache].bytes;
  };
  // 6 executed layers of 2 x 2 x 16 within a window of 100; 2 of 32 + 8; one state of 4 x 16 x 16 and 3
  // inputs of 2 x 32 + 64, read and written.
  const double state = 2.0 * (4 * 16 * 16 + 3 * (2 * 32 + 64));
  CHECK(cacheBytes(1, 10) == 2 * (6 * 64 * 10 + 2 * 40 * 10 + state));
  CHECK(cacheBytes(3, 1000) == 3 * 2 * (6 * 64 * 100 + 2 * 40 * 1000 + state));
  model.groups[0].layer.reach = budget::Reach::chunked;
  CHECK(cacheBytes(1, 100) == 2 * (6 * 64 * 100 + 2 * 40 * 100 + state));
  CHECK(cacheBytes(1, 101) == 2 * (6 * 64 * 1 + 2 * 40 * 101 + state));
  // Scores against the stored rank: 2 x heads x (rank + position + rank); none in linear attention.
  const double flops = predict(model, decode(ideal(1e12), 1, 100))[LatencyPart::cache].flops;
  CHECK(flops == 6 * 4.0 * 8 * 16 * 100 + 2 * 2.0 * 8 * (32 + 8 + 32) * 100);
}

TEST_CASE("later visits of a loop that fits in the cache read from it") {
  const budget::Layer layer{.attention =
                                budget::GroupedAttention{.query_heads = 4, .kv_heads = 2, .head_dim = 32},
                            .ffn = budget::ExpertMlp{.experts = 8, .top_k = 2, .width = 128}};
  const Architecture model{.name = "m",
                           .vocab_size = 1 << 20,
                           .hidden_size = 128,
                           .groups = {{.layer = layer, .layers = 2, .visits = 3, .looped = true}}};
  DeviceModel device = ideal(1e12);
  device.cache_bytes = 0;
  const Latency cold = predict(model, decode(device, 1, 8));
  CHECK(cold.total.cached_bytes == 0);
  device.cache_bytes = 4e6;
  const Latency warm = predict(model, decode(device, 1, 8));
  CHECK(warm.total.bytes == cold.total.bytes);
  // Two of three visits, and of the experts the quarter that the visit before has chosen, too.
  CHECK(warm[LatencyPart::attention].cached_bytes == Approx(cold[LatencyPart::attention].bytes * 2 / 3));
  CHECK(warm[LatencyPart::experts].cached_bytes == Approx(cold[LatencyPart::experts].bytes * 2 / 3 / 4));
  CHECK(warm[LatencyPart::cache].cached_bytes == 0);
  CHECK(warm[LatencyPart::head].cached_bytes == 0);
  CHECK(warm.total.seconds < cold.total.seconds);
  // All of it.
  device.cache_bytes = 1e9;
  const Latency hot = predict(model, decode(device, 1, 8));
  CHECK(hot.total.cached_bytes == hot.total.bytes);
  CHECK(hot.total.bandwidth_seconds == Approx(hot.total.bytes / device.cache_bandwidth));
}

TEST_CASE("every figure of a device changes some prediction") {
  const DeviceModel base{.name = "base",
                         .bf16_flops = 2e12,
                         .f32_flops = 1e12,
                         .fp8_flops = 4e12,
                         .memory_bandwidth = 1e11,
                         .memory_bytes = 1e9,
                         .cache_bandwidth = 4e11,
                         .cache_bytes = 1e6,
                         .launch_seconds = 1e-6,
                         .achievable_bandwidth = 0.9,
                         .achievable_compute = 0.8};
  const auto numbers = [](const DeviceModel &device) {
    std::vector<int64_t> result;
    for (const NumberFormat format : {NumberFormat::bf16, NumberFormat::f32, NumberFormat::fp8}) {
      for (const Step step : {Step{Phase::decode, 1, 16}, Step{Phase::prefill, 1, 4096}}) {
        result.push_back(predict(mixedModel(), {device, step, format, NumberFormat::bf16}).picoseconds());
      }
    }
    return result;
  };
  for (double DeviceModel::*figure :
       {&DeviceModel::bf16_flops, &DeviceModel::f32_flops, &DeviceModel::fp8_flops,
        &DeviceModel::memory_bandwidth, &DeviceModel::cache_bandwidth, &DeviceModel::cache_bytes,
        &DeviceModel::launch_seconds, &DeviceModel::achievable_bandwidth, &DeviceModel::achievable_compute}) {
    DeviceModel changed = base;
    changed.*figure *= figure == &DeviceModel::cache_bytes ? 0 : 0.5;
    CHECK(numbers(changed) != numbers(base));
  }
}

TEST_CASE("more of anything never takes less time") {
  const LatencyRequest requests[] = {decode(ideal(1e12), 1, 500), decode(ideal(1e12), 32, 500),
                                     prefill(ideal(1e12), 1000)};
  for (const LatencyRequest &request : requests) {
    for (const double cache : {0.0, 3e5, 1e8}) {
      LatencyRequest with_cache = request;
      with_cache.device.cache_bytes = cache;
      int64_t before = 0;
      for (int64_t experts = 2; experts < 300; ++experts) {
        Architecture model = mixedModel();
        std::get<budget::ExpertMlp>(model.groups[0].layer.ffn).experts = experts;
        const int64_t now = predict(model, with_cache).picoseconds();
        CAPTURE(experts, cache);
        CHECK(now >= before - 1); // rounding to whole picoseconds
        before = now;
      }
    }
  }
}

TEST_CASE("a prediction that does not fit in 64 bits is none") {
  Architecture model = mixedModel();
  model.hidden_size = int64_t{1} << 40;
  model.vocab_size = int64_t{1} << 40;
  CHECK_FALSE(predictLatency(model, decode(ideal(1e12), 1, 1)));
  CHECK_FALSE(residentBytes(model, decode(ideal(1e12), 1, 1)));
}

TEST_CASE("weights and cache that must be in memory") {
  const LatencyRequest request = decode(ideal(4.8e12), 4, 1024);
  const std::optional<ResidentBytes> resident = residentBytes(bigCell(), request);
  REQUIRE(resident);
  const budget::Account account = *budget::accountFor(bigCell()).account;
  CHECK(resident->weights == 2 * account.total_params);
  CHECK(resident->kv_cache == 4 * 1024 * 68'040);
}
