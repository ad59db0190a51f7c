#include "compiler/Codegen/CPU/ImageLinker.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"

#include <map>

using namespace llvm;
using namespace llvm::object;

namespace smelt::codegen::cpu {

namespace {

class Linker {
public:
  Linker(ELF64LEObjectFile &object, LinkedObject &result) : object(object), result(result) {}

  Error layOut() {
    for (ELFSectionRef section : object.sections()) {
      if (!(section.getFlags() & ELF::SHF_ALLOC) || section.getSize() == 0 ||
          section.getType() == ELF::SHT_X86_64_UNWIND) {
        continue;
      }
      Expected<StringRef> name = section.getName();
      if (!name) {
        return name.takeError();
      }
      if (*name == ".eh_frame") {
        continue; // kernels do not unwind
      }
      if (section.getFlags() & ELF::SHF_WRITE) {
        return createStringError("writable section '%s'", name->str().c_str());
      }
      Expected<StringRef> contents = section.getContents();
      if (!contents) {
        return contents.takeError();
      }
      uint64_t alignment = std::max<uint64_t>(section.getAlignment().value(), 1);
      result.bytes.resize((result.bytes.size() + alignment - 1) / alignment * alignment, 0xcc);
      offsets[section.getIndex()] = result.bytes.size();
      result.bytes.insert(result.bytes.end(), contents->bytes_begin(), contents->bytes_end());
    }
    return Error::success();
  }

  Error relocate() {
    for (ELFSectionRef section : object.sections()) {
      Expected<section_iterator> target = section.getRelocatedSection();
      if (!target) {
        return target.takeError();
      }
      if (*target == object.section_end()) {
        continue;
      }
      auto place = offsets.find((*target)->getIndex());
      if (place == offsets.end()) {
        continue;
      }
      for (ELFRelocationRef relocation : section.relocations()) {
        if (Error error = apply(relocation, place->second + relocation.getOffset())) {
          return error;
        }
      }
    }
    return Error::success();
  }

  Expected<uint64_t> addressOf(const ELFSymbolRef &symbol) {
    Expected<section_iterator> section = symbol.getSection();
    if (!section) {
      return section.takeError();
    }
    Expected<StringRef> name = symbol.getName();
    if (!name) {
      return name.takeError();
    }
    if (*section == object.section_end()) {
      return createStringError("reference to '%s', which a kernel does not define", name->str().c_str());
    }
    auto place = offsets.find((*section)->getIndex());
    if (place == offsets.end()) {
      return createStringError("reference to '%s' in a section that is not loaded", name->str().c_str());
    }
    Expected<uint64_t> value = symbol.getValue();
    if (!value) {
      return value.takeError();
    }
    return place->second + *value;
  }

private:
  Error apply(const ELFRelocationRef &relocation, uint64_t place) {
    Expected<uint64_t> target = addressOf(*relocation.getSymbol());
    if (!target) {
      return target.takeError();
    }
    Expected<int64_t> addend = relocation.getAddend();
    if (!addend) {
      return addend.takeError();
    }
    int64_t value = static_cast<int64_t>(*target) + *addend - static_cast<int64_t>(place);
    switch (relocation.getType()) {
    case ELF::R_X86_64_PC32:
    case ELF::R_X86_64_PLT32:
      support::endian::write32le(&result.bytes[place], static_cast<uint32_t>(value));
      return Error::success();
    case ELF::R_X86_64_PC64:
      support::endian::write64le(&result.bytes[place], static_cast<uint64_t>(value));
      return Error::success();
    default: {
      SmallString<32> name;
      relocation.getTypeName(name);
      return createStringError("relocation of type %s", name.c_str());
    }
    }
  }

  ELF64LEObjectFile &object;
  LinkedObject &result;
  std::map<uint64_t, uint64_t> offsets; // section index -> offset in the image
};

} // namespace

bool linkObject(StringRef bytes, StringRef entrySymbol, LinkedObject &result, std::string &error) {
  auto fail = [&](Error problem) {
    error = "the object of '" + entrySymbol.str() + "' cannot be linked: " + toString(std::move(problem));
    return false;
  };
  Expected<std::unique_ptr<ObjectFile>> parsed =
      ObjectFile::createObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!parsed) {
    return fail(parsed.takeError());
  }
  auto &object = cast<ELF64LEObjectFile>(**parsed);
  Linker linker(object, result);
  if (Error problem = linker.layOut()) {
    return fail(std::move(problem));
  }
  if (Error problem = linker.relocate()) {
    return fail(std::move(problem));
  }
  for (ELFSymbolRef symbol : object.symbols()) {
    Expected<StringRef> name = symbol.getName();
    if (!name) {
      return fail(name.takeError());
    }
    if (*name == entrySymbol) {
      Expected<uint64_t> address = linker.addressOf(symbol);
      if (!address) {
        return fail(address.takeError());
      }
      result.entry = *address;
      return true;
    }
  }
  return fail(createStringError("no such symbol"));
}

} // namespace smelt::codegen::cpu
