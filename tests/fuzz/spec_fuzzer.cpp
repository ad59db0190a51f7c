// Any bytes are a valid spec or a list of located problems. Valid ones also count, list their weights and come back
// from their own text.
#include "compiler/Budget/Budget.h"
#include "compiler/Spec/SpecReader.h"
#include "compiler/Spec/SpecValidator.h"
#include "compiler/Spec/SpecWriter.h"
#include "compiler/Spec/WeightTable.h"

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
  const spec::SpecResult result = spec::parseSpec(text, "fuzz.toml");
  require(result.spec.has_value() == result.diagnostics.empty());
  if (!result) {
    require(!result.diagnostics.text().empty());
    return 0;
  }
  require(spec::validate(*result.spec).empty());
  require(static_cast<bool>(budget::computeBudget(*result.spec)));
  require(!spec::weightTable(*result.spec).empty());
  require(spec::parseSpec(spec::writeSpec(*result.spec), "again.toml").spec == result.spec);
  return 0;
}
