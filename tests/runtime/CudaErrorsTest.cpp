// What a session on a GPU refuses, and what it says.
#include "tests/runtime/CudaSession.h"
#include "tests/support/Process.h"

#include <dlfcn.h>

using namespace smelt::tests;
using namespace smelt::artifact;
using Catch::Matchers::Contains;

namespace {

Outcome created(const ManifestT &manifest, const std::string &code = cudaToyCode(),
                smelt_session_options options = CudaToySession::defaults()) {
  return CudaToySession(manifest, {}, options, code, "splat:1").created;
}

// The toy's code with `from` replaced once in its PTX.
std::string changed(const std::string &from, const std::string &to) {
  std::string code = cudaToyCode();
  size_t place = code.find(from);
  REQUIRE(place != code.npos);
  return code.replace(place, from.size(), to);
}

ManifestT sized(ManifestT manifest, const std::string &code) {
  DeviceImageT &image = *manifest.devices[0]->images[0];
  image.size = code.size() - image.offset;
  return manifest;
}

} // namespace

TEST_CASE("A machine without a driver says so, and runs on the CPU") {
  ToyFiles files{toyManifest()};
  CudaToySession session; // opens the artifact with the look-alike; the next one must not find it
  Variable none("SMELT_CUDA_LIBRARY", "/nowhere/libcuda.so");
  smelt_session_options options = CudaToySession::defaults();
  smelt_session *second = nullptr;
  Outcome outcome = call(smelt_session_create, session.artifact, session.weights, &options, &second);
  CHECK(outcome.status == SMELT_unsupported);
  CHECK_THAT(outcome.message, Contains("the CUDA driver cannot be used") && Contains("/nowhere/libcuda.so") &&
                                  Contains("--device cpu"));
}

TEST_CASE("A device name that means nothing is refused") {
  for (const char *name : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda0", "cuda:99999999999", ""}) {
    smelt_session_options options = CudaToySession::defaults();
    options.device = name;
    Outcome outcome = created(cudaToyManifest(), cudaToyCode(), options);
    CHECK(outcome.status == SMELT_input);
    CHECK_THAT(outcome.message, Contains("cpu, cuda, or cuda:N"));
  }
  smelt_session_options options = CudaToySession::defaults();
  options.device = "cuda:3";
  Outcome outcome = created(cudaToyManifest(), cudaToyCode(), options);
  CHECK(outcome.status == SMELT_unsupported);
  CHECK_THAT(outcome.message, Contains("there is no GPU 3") && Contains("finds 1"));
}

TEST_CASE("An artifact without code for the GPU says what both are") {
  SECTION("an older GPU") {
    Variable sm("SMELT_TEST_CUDA_SM", "75");
    Variable name("SMELT_TEST_CUDA_NAME", "Old Card");
    Outcome outcome = created(cudaToyManifest());
    CHECK(outcome.status == SMELT_unsupported);
    CHECK_THAT(outcome.message,
               Contains("this artifact holds cuda:sm_80; GPU 0 (Old Card, sm_75, driver CUDA 13.0) "
                        "is sm_75: compile with --target cuda:sm_75"));
  }
  SECTION("no code at all") {
    Outcome outcome = created(toyManifest(), std::string(toyCode()));
    CHECK(outcome.status == SMELT_unsupported);
    CHECK_THAT(outcome.message, Contains("this artifact holds no code for GPUs"));
  }
  SECTION("an exact target") {
    ManifestT manifest = cudaToyManifest();
    manifest.devices[0]->exact = true;
    Variable sm("SMELT_TEST_CUDA_SM", "86");
    CHECK(created(manifest).status == SMELT_unsupported);
  }
  SECTION("a target by name") {
    smelt_session_options options = CudaToySession::defaults();
    options.isa = "cuda:sm_90a";
    Outcome outcome = created(cudaToyManifest(), cudaToyCode(), options);
    CHECK(outcome.status == SMELT_unsupported);
    CHECK_THAT(outcome.message, Contains("has no code for 'cuda:sm_90a'; it holds cuda:sm_80"));
  }
}

TEST_CASE("An artifact for GPUs alone runs there and says so elsewhere") {
  ManifestT manifest = cudaToyManifest();
  manifest.variants.clear();
  manifest.target = "cuda:sm_80";
  CHECK(created(manifest).message == "");
  smelt_session_options options = CudaToySession::defaults();
  options.device = nullptr;
  Outcome outcome = created(manifest, cudaToyCode(), options);
  CHECK(outcome.status == SMELT_unsupported);
  CHECK_THAT(outcome.message, Contains("is compiled for cuda:sm_80 alone; run it with --device cuda"));
}

TEST_CASE("The newest target that runs is taken") {
  ManifestT manifest = cudaToyManifest();
  auto exact = std::make_unique<DeviceTargetT>(*manifest.devices[0]);
  exact->name = "cuda:sm_90a";
  exact->compute_capability = 90;
  exact->exact = true;
  manifest.devices.push_back(std::move(exact));
  auto chosen = [&](const char *sm) {
    Variable variable("SMELT_TEST_CUDA_SM", sm);
    CudaToySession session(manifest, {}, CudaToySession::defaults());
    REQUIRE(session.created.message == "");
    smelt_session_options options;
    smelt_session_get_options(session.session, &options);
    return std::string(options.isa);
  };
  CHECK(chosen("90") == "cuda:sm_90a");
  CHECK(chosen("80") == "cuda:sm_80");
  CHECK(chosen("89") == "cuda:sm_80");
}

TEST_CASE("PTX is the fallback of machine code, and the assembler's log is told") {
  ManifestT manifest = cudaToyManifest();
  auto cubin = std::make_unique<DeviceImageT>();
  cubin->kind = ImageKind::cubin;
  cubin->offset = 0;
  cubin->size = 64;
  SECTION("machine code of another major version is passed over") {
    manifest.devices[0]->images.insert(manifest.devices[0]->images.begin(), std::move(cubin));
    Variable sm("SMELT_TEST_CUDA_SM", "90");
    CHECK(created(manifest).message == "");
  }
  SECTION("broken PTX") {
    std::string code = changed("add.rn.f32 %f2, %f2, %f1", "add.rn.f32 %f2, %f2, nothing");
    Outcome outcome = created(sized(cudaToyManifest(), code), code);
    CHECK(outcome.status == SMELT_unsupported);
    CHECK_THAT(outcome.message, Contains("the code for cuda:sm_80 (PTX ISA 7.0) does not load on GPU 0") &&
                                    Contains("cannot load its PTX: CUDA_ERROR_INVALID_PTX") &&
                                    Contains("nothing"));
  }
  SECTION("a function that is not there") {
    manifest.devices[0]->programs[1]->device_kernels[0]->stages[0]->function = "missing";
    Outcome outcome = created(manifest);
    CHECK(outcome.status == SMELT_artifact);
    CHECK_THAT(outcome.message, Contains("find function 'missing' in the artifact's code"));
  }
}

TEST_CASE("Too little memory is told before anything is allocated, with the plan's numbers") {
  Variable memory("SMELT_TEST_CUDA_MEMORY", "1");
  smelt_session_options options = CudaToySession::defaults();
  options.capacity = 1 << 20;
  Outcome outcome = created(cudaToyManifest(), cudaToyCode(), options);
  CHECK(outcome.status == SMELT_memory);
  CHECK_THAT(outcome.message, Contains("of GPU 0") && Contains("of weights") &&
                                  Contains("96.00 MiB of KV cache for 1 sequence of 1048576 positions") &&
                                  Contains("lower what is largest"));
}

TEST_CASE("A grid beyond what CUDA launches is refused before it runs") {
  ManifestT manifest = cudaToyManifest();
  manifest.devices[0]->programs[1]->device_kernels[0]->stages[0]->grid_y =
      std::make_unique<GridSize>(0, 1, 0, 0, 1, 0);
  smelt_session_options options = CudaToySession::defaults();
  options.max_step_tokens = 1 << 17;
  Outcome outcome = created(manifest, cudaToyCode(), options);
  CHECK(outcome.status == SMELT_unsupported);
  CHECK_THAT(outcome.message, Contains("stage 'toy_embed_0' of kernel 'toy_embed'") && Contains("131072"));
}

TEST_CASE("A kernel that fails is named, and the session does not go on") {
  // The store of the embedding goes nowhere.
  std::string from = "st.global.f32 [%rd1], %f1;";
  ManifestT manifest = cudaToyManifest();
  std::string code = changed(from, "st.global.f32 [64],   %f1;");
  auto run = [&](const char *sync) {
    TemporaryFolder folder;
    std::string artifact = folder.write("m.smelt", packArtifact(sized(manifest, code), code));
    Variable variable("SMELT_CUDA_SYNC", sync);
    Variable library("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA);
    return runProcess({SMELT_RUN, artifact, "--weights", "splat:1", "--tokens", "1,2", "--device", "cuda"});
  };
  ProcessResult located = run("1");
  CHECK(located.exit_code == SMELT_internal);
  CHECK_THAT(located.err,
             Contains("stage 'toy_embed_0' of kernel 'toy_embed' (embed), grid 1 x 1 x 1 of 32 threads") &&
                 Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  ProcessResult blind = run("0");
  CHECK(blind.exit_code == SMELT_internal);
  CHECK_THAT(blind.err, Contains("CUDA_ERROR_ILLEGAL_ADDRESS") && Contains("set SMELT_CUDA_SYNC=1"));
}

TEST_CASE("Every later step tells of the failure that ended the context") {
  ManifestT manifest = cudaToyManifest();
  // The second program stores nowhere; the first one would still run.
  manifest.devices[0]->programs[1]->device_kernels[0]->stages[0]->function = "toy_lost";
  std::string ptx = cudaToyPtx(), lost = ptx.substr(ptx.find(".visible .entry toy_embed_0"));
  lost.resize(lost.find("\n}\n") + 3);
  lost.replace(lost.find("toy_embed_0"), 11, "toy_lost");
  lost.replace(lost.find("st.global.f32 [%rd1]"), 20, "st.global.f32 [64]");
  std::string code = std::string(toyCode()) + ptx + lost + '\0';
  smelt_session_options options = CudaToySession::defaults();
  CudaToySession session(sized(std::move(manifest), code), {}, options, code);
  REQUIRE(session.created.message == "");
  session.run({1, 2});
  CHECK(session.outcome.message == "");
  session.run({1, 2, 3, 4, 5, 6});
  CHECK(session.outcome.status == SMELT_internal);
  CHECK_THAT(session.outcome.message, Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  session.run({1});
  CHECK(session.outcome.status == SMELT_internal);
  CHECK_THAT(session.outcome.message, Contains("the session cannot go on after an earlier failure") &&
                                          Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK(smelt_session_length(session.session, 0) == 2);
  // The look-alike, unlike a GPU, can be made whole for the tests that follow in this process.
  void *library = dlopen(SMELT_TEST_CUDA, RTLD_NOW);
  reinterpret_cast<void (*)()>(dlsym(library, "smelt_test_cuda_clear_error"))();
}

TEST_CASE("splat:SEED wants a number and no company") {
  CudaToySession session;
  smelt_weights *weights = nullptr;
  const char *wrong[] = {"splat:", "splat:x", "splat:1x", "splat:99999999999999999999999"};
  for (const char *path : wrong) {
    Outcome outcome = call(smelt_weights_open, session.artifact, &path, size_t(1), &weights);
    CHECK(outcome.status == SMELT_usage);
    CHECK_THAT(outcome.message, Contains("should be splat:SEED"));
  }
  const char *two[] = {"splat:1", "w.safetensors"};
  CHECK_THAT(call(smelt_weights_open, session.artifact, two, size_t(2), &weights).message,
             Contains("give no file beside it"));
}

TEST_CASE("smelt-run runs on a GPU with the same commands and results") {
  TemporaryFolder folder;
  ToyShape shape;
  std::string artifact = folder.write("m.smelt", packArtifact(cudaToyManifest(shape), cudaToyCode()));
  std::string twin = folder.write("c.smelt", packArtifact(cpuTwinManifest(shape), toyCode()));
  Variable library("SMELT_CUDA_LIBRARY", SMELT_TEST_CUDA);
  auto run = [&](const std::string &model, std::vector<std::string> extra) {
    std::vector<std::string> arguments = {SMELT_RUN, model, "--weights", "splat:5", "--tokens", "3,1,4,1,5"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    ProcessResult result = runProcess(arguments);
    CHECK(result.exit_code == 0);
    return result;
  };
  std::string gpuLogits = folder.path("g.npy"), cpuLogits = folder.path("c.npy");
  ProcessResult gpu =
      run(artifact, {"--device", "cuda:0", "--max-new-tokens", "6", "--logits", gpuLogits, "--profile"});
  ProcessResult cpu = run(twin, {"--max-new-tokens", "6", "--logits", cpuLogits});
  CHECK(gpu.out == cpu.out);
  CHECK(readFile(gpuLogits) == readFile(cpuLogits));
  CHECK_THAT(gpu.err, Contains("on cuda:0, code cuda:sm_80") && Contains("long products by own kernels") &&
                          Contains("toy_experts"));
  CHECK_THAT(run(artifact, {"--device", "cuda", "--json"}).out,
             Contains("\"device\": \"cuda:0\"") && Contains("\"device_weight_bytes\"") &&
                 Contains("\"gemm\": \"own kernels\""));
}

TEST_CASE("An artifact lists its devices") {
  CudaToySession session;
  smelt_artifact_info info;
  smelt_artifact_get_info(session.artifact, &info);
  CHECK(info.device_count == 1);
  smelt_device_info device;
  REQUIRE(smelt_artifact_get_device(session.artifact, 0, &device));
  CHECK(device.name == std::string("cuda:sm_80"));
  CHECK(device.ptx);
  CHECK(!device.machine_code);
  CHECK(device.program_count == 2);
  CHECK(device.launches_per_step == 1 + 6 * (1 + 2 + 1) + 1);
  CHECK(!smelt_artifact_get_device(session.artifact, 1, &device));
}
