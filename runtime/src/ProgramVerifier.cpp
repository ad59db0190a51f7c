#include "runtime/src/ArtifactVerifier.h"
#include "runtime/src/ProgramTables.h"
#include "runtime/src/WeightLayout.h"

#include <fmt/format.h>

namespace smelt::runtime {

using namespace artifact;

namespace {

bool isWritable(BufferKind kind, const Kernel &kernel) {
  switch (kind) {
  case BufferKind::workspace:
  case BufferKind::state:
  case BufferKind::logits:
  case BufferKind::sampled:
    return true;
  case BufferKind::token_ids:
  case BufferKind::positions:
  case BufferKind::draws: // of the next step
    return choosesTokens(kernel);
  default:
    return false;
  }
}

class ProgramVerifier {
public:
  ProgramVerifier(const ProgramTables &tables, const std::string &where, ProblemList &problems)
      : tables(tables), where(where), problems(problems), written(tables.buffers.size()) {}

  void run() {
    uint64_t launches = 0;
    if (tables.blocks.size() == 0) {
      problems.add(where + "the step program is empty");
    }
    for (blockIndex = 0; blockIndex < tables.blocks.size(); ++blockIndex) {
      const Block &block = *tables.blocks.Get(blockIndex);
      verifyBlock(block);
      for (callIndex = 0; callIndex < block.calls()->size(); ++callIndex) {
        verifyCall(block, *block.calls()->Get(callIndex));
      }
      uint64_t times = uint64_t(std::max<uint32_t>(block.layers(), 1)) * block.visits();
      uint64_t product;
      if (__builtin_mul_overflow(times, uint64_t(block.calls()->size()), &product) || product > maxLaunches ||
          (launches += product) > maxLaunches) {
        problems.add(fmt::format("{}the step program makes more than {} calls", where, maxLaunches));
        return;
      }
    }
  }

private:
  void verifyBlock(const Block &block) {
    auto report = [&](const std::string &what) {
      problems.add(fmt::format("{}block {}: {}", where, blockIndex, what));
    };
    if (block.visits() == 0) {
      report("has 0 visits");
    }
    if (block.order() > VisitOrder::MAX) {
      report(fmt::format("has visit order {}, which this runtime does not know", int(block.order())));
    }
    if (block.layers() == 0 && (block.visits() != 1 || block.first_layer() != 0)) {
      report(fmt::format("has no layers, but {} visits and first layer {}", block.visits(),
                         block.first_layer()));
    }
    if (block.calls()->size() == 0) {
      report("has no calls");
    }
  }

  void report(const std::string &what) {
    problems.add(fmt::format("{}block {} call {}: {}", where, blockIndex, callIndex, what));
  }

  void verifyCall(const Block &block, const Call &call) {
    if (call.kernel() >= tables.kernels.size()) {
      return report(fmt::format("kernel {} of {}", call.kernel(), tables.kernels.size()));
    }
    const Kernel &kernel = *tables.kernels.Get(call.kernel());
    std::string name = printable(kernel.name()->string_view());
    if (call.bindings()->size() != kernel.bindings()->size()) {
      return report(fmt::format("{} bindings for kernel '{}', which has {}", call.bindings()->size(), name,
                                kernel.bindings()->size()));
    }
    if (call.constants()->size() != kernel.constants()) {
      return report(fmt::format("{} constants for kernel '{}', which has {}", call.constants()->size(), name,
                                kernel.constants()));
    }
    for (uint32_t i = 0; i < call.constants()->size(); ++i) {
      if (call.constants()->Get(i)->kind() > ConstantKind::MAX) {
        report(fmt::format("constant {} has kind {}, which this runtime does not know", i,
                           int(call.constants()->Get(i)->kind())));
      }
    }
    willBeWritten.clear();
    for (uint32_t i = 0; i < call.bindings()->size(); ++i) {
      subject = fmt::format("binding {} of kernel '{}'", i, name);
      verifyBinding(block, kernel, *call.bindings()->Get(i), *kernel.bindings()->Get(i));
    }
    for (uint32_t index : willBeWritten) {
      written[index] = true;
    }
  }

  void verifyBinding(const Block &block, const Kernel &kernel, const Binding &binding,
                     const KernelBinding &use) {
    switch (binding.kind()) {
    case BindingKind::buffer:
    case BindingKind::state_slot:
      return verifyBufferBinding(block, kernel, binding, use);
    case BindingKind::weight:
    case BindingKind::weight_table:
      return verifyWeightBinding(block, binding, use);
    }
    report(fmt::format("{} has kind {}, which this runtime does not know", subject, int(binding.kind())));
  }

  void verifyBufferBinding(const Block &block, const Kernel &kernel, const Binding &binding,
                           const KernelBinding &use) {
    if (binding.index() >= tables.buffers.size()) {
      return report(fmt::format("{} is buffer {} of {}", subject, binding.index(), tables.buffers.size()));
    }
    const Buffer &buffer = *tables.buffers.Get(binding.index());
    std::string name = printable(buffer.name()->string_view());
    bool slot = binding.kind() == BindingKind::state_slot;
    if (slot != (buffer.kind() == BufferKind::state)) {
      return report(slot
                        ? fmt::format("{} is a state slot of buffer '{}', which is not state", subject, name)
                        : fmt::format("{} is all of state buffer '{}'; kernels see one slot", subject, name));
    }
    if (use.access() != Access::read && !isWritable(buffer.kind(), kernel)) {
      report(fmt::format("{} writes buffer '{}', which is {}", subject, name,
                         EnumNameBufferKind(buffer.kind())));
    }
    if (use.access() != Access::write && !written[binding.index()] &&
        (buffer.kind() == BufferKind::workspace || buffer.kind() == BufferKind::logits ||
         buffer.kind() == BufferKind::sampled)) {
      report(fmt::format("{} reads buffer '{}', which nothing has written yet", subject, name));
    }
    if (use.access() != Access::read) {
      willBeWritten.push_back(binding.index());
    }
    if (!covers(*buffer.size(), *use.size())) {
      report(fmt::format("{} may touch {} bytes, buffer '{}' has {}", subject, formatSize(*use.size()), name,
                         formatSize(*buffer.size())));
    }
    uint64_t slots = uint64_t(std::max<uint32_t>(block.layers(), 1)) * block.visits();
    if (slot && (slots > buffer.slots() || block.slot_base() > buffer.slots() - slots)) {
      report(fmt::format("{} uses slots [{}, +{}) of buffer '{}', which has {}", subject, block.slot_base(),
                         slots, name, buffer.slots()));
    }
  }

  void verifyWeightBinding(const Block &block, const Binding &binding, const KernelBinding &use) {
    if (binding.index() >= tables.weights.size()) {
      return report(fmt::format("{} is weight {} of {}", subject, binding.index(), tables.weights.size()));
    }
    const Weight &weight = *tables.weights.Get(binding.index());
    std::string name = printable(weight.name()->string_view());
    bool table = binding.kind() == BindingKind::weight_table;
    if (table != (weight.experts() > 0)) {
      report(table ? fmt::format("{} is a table of weight '{}', which has no experts", subject, name)
                   : fmt::format("{} is one tensor of weight '{}', which has {} experts", subject, name,
                                 weight.experts()));
    }
    if (use.access() != Access::read) {
      report(fmt::format("{} writes weight '{}'", subject, name));
    }
    Size have(layoutBytes(weight), 0, 0, 0, 0);
    if (!covers(have, *use.size())) {
      report(fmt::format("{} may touch {} bytes, a tensor of weight '{}' has {}", subject,
                         formatSize(*use.size()), name, have.bytes()));
    }
    uint64_t first = weight.first_layer(), end = first + weight.layers();
    if (weight.layers() && (block.layers() == 0 || block.first_layer() < first ||
                            uint64_t(block.first_layer()) + block.layers() > end)) {
      report(fmt::format("{} is weight '{}' of layers [{}, {}), the block runs layers [{}, {})", subject,
                         name, first, end, block.first_layer(),
                         uint64_t(block.first_layer()) + block.layers()));
    }
  }

  const ProgramTables &tables;
  const std::string &where;
  ProblemList &problems;
  uint32_t blockIndex = 0, callIndex = 0;
  std::string subject;
  // Buffers that some call so far has written. One pass in program order is enough: a loop's first round is
  // the one that could read too early.
  std::vector<bool> written;
  std::vector<uint32_t> willBeWritten; // by the current call
};

} // namespace

void verifyProgram(const ProgramTables &tables, const std::string &where, ProblemList &problems) {
  ProgramVerifier(tables, where, problems).run();
}

} // namespace smelt::runtime
