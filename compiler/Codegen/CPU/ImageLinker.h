// Links one relocatable object into a flat, position-independent image: code and its constants, every
// reference resolved. Anything the image could not carry (an undefined symbol, writable data, an absolute
// address) is refused by name.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace smelt::codegen::cpu {

struct LinkedObject {
  std::vector<uint8_t> bytes;
  uint64_t entry = 0; // offset of the symbol asked for
};

bool linkObject(llvm::StringRef object, llvm::StringRef entrySymbol, LinkedObject &result,
                std::string &error);

} // namespace smelt::codegen::cpu
