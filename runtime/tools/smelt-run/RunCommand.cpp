#include "runtime/tools/smelt-run/RunCommand.h"

#include "runtime/src/AtomicFile.h"
#include "runtime/src/Npy.h"
#include "runtime/src/Sampler.h"
#include "runtime/src/Text.h"
#include "runtime/tools/smelt-run/RunReport.h"
#include "runtime/tools/smelt-run/StopSignal.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <span>

namespace smelt::runtime {
namespace {

constexpr uint32_t defaultNewTokens = 16;
constexpr uint32_t defaultChunk = 512;
constexpr uint32_t deviceChunk = 4096; // a long step reads most experts: the fewer, the better

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Run {
public:
  Run(const RunOptions &options, const std::string &program) : options(options), program(program) {
    sampling.temperature = options.temperature;
    sampling.top_p = options.topP;
    sampling.top_k = options.topK;
    sampling.seed = options.seed;
    bool keepsLogits = !options.logits.empty(); // of a whole step, in memory
    chunk = options.chunk.value_or(onDevice() && !keepsLogits ? deviceChunk : defaultChunk);
    newTokens = options.maxNewTokens.value_or(options.logits.empty() ? defaultNewTokens : 0);
  }

  Status execute() {
    Status (Run::*const phases[])() = {&Run::readInput, &Run::load, &Run::prefill, &Run::decode,
                                       &Run::finish};
    for (auto phase : phases) {
      if (StopSignal::requested()) {
        return fail(SMELT_interrupted, "stopped by a signal");
      }
      if (Status status = (this->*phase)(); !status.ok()) {
        return status;
      }
    }
    return success();
  }

  // Ends a line of tokens that an error cut short.
  void endLine() {
    if (streamed) {
      std::fputc('\n', stdout);
      std::fflush(stdout);
    }
  }

private:
  bool onDevice() const { return options.device != "cpu"; }

  Status readInput() {
    if (Status status = checkSampling(sampling); !status.ok()) {
      return status;
    }
    Result<std::vector<Prompt>> prompts = readPrompts(options);
    if (!prompts.ok()) {
      return prompts.takeStatus();
    }
    result.prompts = std::move(*prompts);
    result.generated.resize(result.prompts.size());
    for (const Prompt &prompt : result.prompts) {
      longest = std::max<uint64_t>(longest, prompt.size());
      if (!options.logits.empty() && prompt.size() != result.prompts[0].size()) {
        return fail(SMELT_input,
                    fmt::format("--logits needs prompts of one length, these have {} and {} tokens",
                                result.prompts[0].size(), prompt.size()));
      }
    }
    return success();
  }

  Status load() {
    if (Status status = model.openArtifact(options.artifact); !status.ok()) {
      return status;
    }
    if (Status status = checkPrompts(result.prompts, model.info.vocab_size); !status.ok()) {
      return status;
    }
    if (Status status = model.openWeights(options.weights); !status.ok()) {
      return status;
    }
    if (uint64_t count = smelt_weights_unquantized(model.weights.get())) {
      fmt::print(stderr, "weights: {} tensors are quantised to i8 as they are loaded\n", count);
    }
    if (Status status = openLogits(); !status.ok()) {
      return status;
    }
    uint64_t capacity = longest + newTokens;
    if (capacity > uint64_t(INT32_MAX)) {
      return fail(SMELT_input, fmt::format("{} prompt and {} new tokens are too many", longest, newTokens));
    }
    smelt_session_options session;
    smelt_session_options_init(&session);
    session.sequences = uint32_t(result.prompts.size());
    session.capacity = uint32_t(capacity);
    session.max_step_tokens =
        uint32_t(std::min<uint64_t>(std::max<uint64_t>(promptTokens(), session.sequences), chunk));
    session.max_logit_rows = logitsFile ? session.max_step_tokens : session.sequences;
    session.threads = options.threads;
    session.isa = options.isa.empty() ? nullptr : options.isa.c_str();
    session.profile = options.profile;
    session.device = options.device.c_str();
    session.gemm = options.gemm.c_str();
    session.weights_cache = options.weightsCache.empty()     ? nullptr
                            : options.weightsCache == "auto" ? ""
                                                             : options.weightsCache.c_str();
    session.check_weights_cache = options.checkWeightsCache;
    if (Status status = model.createSession(session, program); !status.ok()) {
      return status;
    }
    StopSignal::watch(model.session.get());
    return onDevice() || options.noPreload ? success() : model.preload(); // a GPU has its copy by now
  }

  Status openLogits() {
    if (options.logits.empty()) {
      return success();
    }
    Result<AtomicFile> file = AtomicFile::create(options.logits);
    if (!file.ok()) {
      return file.takeStatus();
    }
    logitsFile.emplace(std::move(*file));
    std::vector<uint64_t> shape = {longest, model.info.vocab_size};
    if (options.batch) {
      shape.insert(shape.begin(), result.prompts.size());
    }
    std::string header = npyHeader(NpyType::f32, shape);
    return logitsFile->write(std::as_bytes(std::span(header)));
  }

  uint64_t promptTokens() const {
    uint64_t sum = 0;
    for (const Prompt &prompt : result.prompts) {
      sum += prompt.size();
    }
    return sum;
  }

  // All prompts, one after the other, up to each one's first new token.
  Status prefill() {
    auto start = std::chrono::steady_clock::now();
    std::vector<int32_t> tokens, sequences, rows;
    for (size_t p = 0; p < result.prompts.size(); ++p) {
      tokens.insert(tokens.end(), result.prompts[p].begin(), result.prompts[p].end());
      sequences.resize(tokens.size(), int32_t(p));
      rows.push_back(int32_t(tokens.size()) - 1);
    }
    if (newTokens == 0) {
      rows.clear();
    }
    latest.resize(rows.size());
    Status status = logitsFile ? prefillKeepingAll(tokens, sequences, rows)
                               : model.sample(stepOf(tokens, sequences, rows), sampling, latest.data());
    result.prefill = {tokens.size(), secondsSince(start)};
    return status;
  }

  // Step by step, so that the logits of long prompts never lie in memory together.
  Status prefillKeepingAll(const std::vector<int32_t> &tokens, const std::vector<int32_t> &sequences,
                           const std::vector<int32_t> &lastRows) {
    size_t vocab = model.info.vocab_size, last = 0;
    std::vector<float> values;
    for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
      size_t count = std::min<size_t>(chunk, tokens.size() - begin);
      std::vector<int32_t> rows(count);
      for (size_t i = 0; i < count; ++i) {
        rows[i] = int32_t(i);
      }
      values.resize(count * vocab);
      smelt_step step =
          stepOf(std::span(tokens).subspan(begin, count), std::span(sequences).subspan(begin, count), rows);
      if (Status status = model.forward(step, values.data()); !status.ok()) {
        return status;
      }
      if (Status status = logitsFile->write(std::as_bytes(std::span(values))); !status.ok()) {
        return status;
      }
      for (; last < lastRows.size() && size_t(lastRows[last]) < begin + count; ++last) {
        auto row = std::span(values).subspan((size_t(lastRows[last]) - begin) * vocab, vocab);
        Result<int32_t> token = sample(row, sampling, last, 0);
        if (!token.ok()) {
          return token.takeStatus();
        }
        latest[last] = *token;
      }
    }
    return success();
  }

  static smelt_step stepOf(std::span<const int32_t> tokens, std::span<const int32_t> sequences,
                           std::span<const int32_t> rows) {
    smelt_step step = {};
    step.tokens = tokens.data();
    step.token_count = tokens.size();
    step.sequence_ids = sequences.data();
    step.logit_rows = rows.data();
    step.logit_row_count = rows.size();
    return step;
  }

  Status decode() {
    if (newTokens == 0) {
      return success();
    }
    if (Status status = emit(latest); !status.ok()) { // it belongs to the prompt's step
      return status;
    }
    auto start = std::chrono::steady_clock::now();
    std::vector<int32_t> first = latest;
    Status written;
    auto deliver = [&](const int32_t *tokens) {
      written = emit({tokens, first.size()});
      return !written.ok();
    };
    smelt_generation generation = {};
    generation.sequence_count = first.size();
    generation.tokens = first.data();
    generation.steps = newTokens - 1;
    generation.sampling = sampling;
    generation.first_step = 1;
    generation.user = &deliver;
    generation.deliver = [](void *user, const int32_t *tokens) {
      return int((*static_cast<decltype(deliver) *>(user))(tokens));
    };
    if (Status status = model.generate(generation); !status.ok()) {
      return status;
    }
    if (newTokens > 1) {
      result.decode = {uint64_t(newTokens - 1) * first.size(), secondsSince(start)};
    }
    return written;
  }

  // Takes one token of each sequence.
  Status emit(std::span<const int32_t> tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      result.generated[i].push_back(tokens[i]);
    }
    if (!options.json && !options.batch) {
      std::fprintf(stdout, streamed ? " %d" : "%d", tokens[0]);
      streamed = true;
      return flush();
    }
    return success();
  }

  Status flush() {
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      return fail(SMELT_io, fmt::format("standard output cannot be written: {}", errnoText(errno)));
    }
    return success();
  }

  Status finish() {
    if (logitsFile) {
      if (Status status = logitsFile->commit(); !status.ok()) {
        return status;
      }
    }
    if (options.json) {
      std::fputs(jsonReport(model, result).c_str(), stdout);
    } else if (options.batch) {
      for (const Prompt &tokens : result.generated) {
        fmt::print(stdout, "{}\n", fmt::join(tokens, " "));
      }
    } else if (streamed) {
      std::fputc('\n', stdout);
    }
    streamed = false;
    if (Status status = flush(); !status.ok()) {
      return status;
    }
    std::fputs(textReport(model, result).c_str(), stderr);
    return success();
  }

  const RunOptions &options;
  const std::string &program; // for messages
  smelt_sampling sampling = {};
  uint32_t newTokens = 0;
  uint32_t chunk = 0;   // tokens of one step
  uint64_t longest = 0; // prompt
  RunModel model;
  RunResult result;
  std::optional<AtomicFile> logitsFile;
  std::vector<int32_t> latest; // the first new token of each sequence
  bool streamed = false;       // a line of tokens is open
};

} // namespace

int runCommand(const RunOptions &options, const std::string &program) {
  StopSignal stop;
  Status status;
  try {
    Run run(options, program);
    status = run.execute();
    StopSignal::watch(nullptr);
    if (!status.ok()) {
      run.endLine();
    }
  } catch (const std::bad_alloc &) {
    status = fail(SMELT_memory, "out of memory");
  } catch (const std::exception &exception) {
    status = fail(SMELT_internal, exception.what());
  }
  if (status.code == SMELT_interrupted) {
    status.message = "stopped by a signal";
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s: error: %s\n", program.c_str(), status.message.c_str());
  }
  return status.code;
}

} // namespace smelt::runtime
