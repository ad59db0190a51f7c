// Any bytes are a config that is understood in full or a list of problems. Understood ones can be counted, or
// say which number is too large, and their spec, if they have one, is valid and counts the same.
#include "compiler/Budget/Accounting.h"
#include "compiler/Budget/Conventions.h"
#include "compiler/Import/HuggingFace.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/SpecWriter.h"

#include <cstdint>
#include <cstdlib>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace smelt;
  const std::string_view text(reinterpret_cast<const char *>(data), size);
  const hf::ModelResult result = hf::parseConfig(text, "fuzz.json", "fuzz");
  require(result.model.has_value() == result.diagnostics.empty());
  if (!result) {
    require(!result.diagnostics.text().empty());
    return 0;
  }
  const budget::AccountResult counted =
      budget::accountFor(result.model->architecture, budget::Context::causal(4096));
  require(counted.account.has_value() == counted.error.empty());
  if (counted) {
    require(counted.account->total_params > 0);
    require(counted.account->active_params <= counted.account->non_embedding_params);
    require(!counted.account->kv.pieces().empty());
    (void)budget::conventions(result.model->architecture, 4096);
  }
  const hf::SpecConversion conversion = hf::toSpec(*result.model);
  require(conversion.spec.has_value() == conversion.inexpressible.empty());
  if (conversion.spec) {
    const spec::SpecResult again = spec::parseSpec(spec::writeSpec(*conversion.spec), "again.toml");
    require(again && *again.spec == *conversion.spec);
    const budget::AccountResult same =
        budget::accountFor(budget::architectureOf(*conversion.spec), budget::Context::causal(4096));
    require(counted && same && same.account->total_params == counted.account->total_params &&
            same.account->forward_flops == counted.account->forward_flops);
  }
  return 0;
}
