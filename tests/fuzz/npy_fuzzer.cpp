// Any bytes are a sound .npy array or are refused with a message; what is read has a header that reads back.
#include "runtime/src/Npy.h"

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace smelt::runtime;
  auto array = parseNpy("fuzz.npy", {reinterpret_cast<const std::byte *>(data), size});
  if (!array.ok()) {
    require(array.status().code == SMELT_input && !array.status().message.empty());
    return 0;
  }
  std::string again = npyHeader(array->type, array->shape);
  again.append(reinterpret_cast<const char *>(array->data.data()), array->data.size());
  auto back = parseNpy("again.npy", std::as_bytes(std::span(again)));
  require(back.ok() && back->type == array->type && back->shape == array->shape);
  return 0;
}
