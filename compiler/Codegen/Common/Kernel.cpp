#include "compiler/Codegen/Common/Kernel.h"

#include <cstdio>
#include <cstdlib>

namespace smelt::codegen {

int64_t KernelDesc::param(const std::string &key) const {
  auto it = params.find(key);
  if (it == params.end()) {
    std::fprintf(stderr, "kernel '%s' of role '%s' has no parameter '%s'\n", name.c_str(), role.c_str(),
                 key.c_str());
    std::abort();
  }
  return it->second;
}

WeightLayout KernelDesc::layout() const {
  auto it = params.find("layout");
  return it == params.end() ? WeightLayout::row_major : static_cast<WeightLayout>(it->second);
}

} // namespace smelt::codegen
