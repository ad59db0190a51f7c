#include "runtime/tools/smelt-run/RunOptions.h"

#include <CLI/CLI.hpp>

namespace smelt::runtime {

void addRunOptions(CLI::App &app, RunOptions &options) {
  app.add_option("artifact", options.artifact, "Compiled model, model.smelt")->required();
  app.add_option("--weights", options.weights,
                 "Safetensors file(s), a model.safetensors.index.json, or the folder that holds them; or "
                 "splat:SEED, hash weights that need no file")
      ->required()
      ->type_name("FILE...");
  CLI::Option_group *prompt = app.add_option_group("Prompt", "What the model reads first");
  prompt->add_option("--tokens", options.tokens, "Token ids, as 1,2,3; with --batch once per sequence")
      ->type_name("IDS")
      ->expected(1)
      ->take_all();
  prompt
      ->add_option("--tokens-file", options.tokensFile,
                   "Token ids as JSON or .npy: a list, or with --batch a list of lists")
      ->type_name("FILE");
  prompt->require_option(1);
  app.add_option("--max-new-tokens", options.maxNewTokens,
                 "Tokens to generate for each sequence; default 16, or 0 with --logits");
  app.add_option("--temperature", options.temperature, "0 picks the most likely token")
      ->capture_default_str();
  app.add_option("--top-p", options.topP, "Draw from the most likely tokens with this share of probability")
      ->capture_default_str();
  app.add_option("--top-k", options.topK, "Draw from that many of the most likely tokens; 0: from all")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the random draws")->capture_default_str();
  app.add_option("--logits", options.logits,
                 "Write the logits of every prompt position, f32 [T, V] or with --batch [B, T, V]")
      ->type_name("OUT.npy");
  app.add_flag("--batch", options.batch, "Run several prompts together; one line of output each");
  app.add_option("--threads", options.threads, "Default: the CPUs this process may use");
  app.add_flag("--profile", options.profile, "Print what every kernel took");
  app.add_option("--device", options.device, "Where to run: cpu, cuda, or cuda:N for GPU N")
      ->capture_default_str();
  app.add_option(
      "--isa", options.isa,
      "Code variant to run, e.g. x86-64-v3, or on a GPU cuda:sm_80; default: the best for the machine");
  app.add_option("--gemm", options.gemm,
                 "What multiplies dense matrices on a GPU in steps of 32 rows and more: own (kernels of the "
                 "artifact; no result depends on the rows of a step), cublas, or auto: cuBLASLt if it is there")
      ->check(CLI::IsMember({"auto", "own", "cublas"}))
      ->capture_default_str();
  app.add_option("--chunk", options.chunk,
                 "Most tokens of one step of the prompt; default 512, or 4096 on a GPU, which reads most of "
                 "its weights once a step")
      ->check(CLI::Range(1, 1 << 24));
  app.add_flag("--json", options.json, "Print one JSON object instead of the tokens");
  app.add_flag("--weights-cache{auto}", options.weightsCache,
               "Map the packed weights from a file, written by the first start; =FILE names it, auto puts it "
               "beside the weights");
  app.add_flag("--check-weights-cache", options.checkWeightsCache,
               "Read all of the weights cache first and compare its checksums")
      ->needs("--weights-cache");
  app.add_flag("--no-preload", options.noPreload, "Do not read the weights before the first step");
}

} // namespace smelt::runtime
