// The functions of a library opened with dlopen, found by name; those it lacks are told all at once.
#pragma once

#include "runtime/src/Text.h"

#include <dlfcn.h>

namespace smelt::runtime::cuda {

class SymbolFinder {
public:
  explicit SymbolFinder(void *handle) : handle(handle) {}

  // Sets a pointer to a function, null when there is none.
  template <typename Function> void find(Function *&function, const char *symbol) {
    function = reinterpret_cast<Function *>(dlsym(handle, symbol));
    if (!function) {
      missing.add(symbol);
    }
  }

  ProblemList missing;

private:
  void *handle;
};

} // namespace smelt::runtime::cuda
