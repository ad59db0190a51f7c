#include "tests/support/cuda/ptx/BodyParser.h"

#include <bit>
#include <cstring>
#include <unordered_map>

namespace smelt::emu {
namespace {

uint64_t alignUp(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

class ModuleParser {
public:
  explicit ModuleParser(std::string_view text) : cursor(text) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      module.lines.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  Module run() {
    while (!cursor.atEnd()) {
      item();
    }
    if (module.target.empty() || module.version_major == 0) {
      cursor.fail("a PTX module needs .version and .target");
    }
    return std::move(module);
  }

private:
  void item() {
    if (cursor.take(".version")) {
      version();
    } else if (cursor.take(".target")) {
      target();
    } else if (cursor.take(".address_size")) {
      if (cursor.integer() != 64) {
        cursor.fail("only 64-bit addresses are emulated");
      }
    } else if (cursor.take(".file")) {
      cursor.skipLine();
    } else if (cursor.take(".section")) {
      cursor.word();
      cursor.skipBlock();
    } else if (cursor.take(".pragma")) {
      cursor.next();
      cursor.expect(";");
    } else {
      declaration();
    }
  }

  void version() {
    const std::string text = cursor.word();
    if (std::sscanf(text.c_str(), "%d.%d", &module.version_major, &module.version_minor) != 2) {
      cursor.fail("unreadable .version " + text);
    }
  }

  void target() {
    module.target = cursor.word();
    if (std::sscanf(module.target.c_str(), "sm_%u", &module.sm) != 1) {
      cursor.fail("unreadable .target " + module.target);
    }
    while (cursor.take(",")) {
      cursor.word(); // debug, texmode_...
    }
  }

  void declaration() {
    bool external = false;
    for (;;) {
      if (cursor.take(".extern")) {
        external = true;
      } else if (!cursor.take(".visible") && !cursor.take(".weak") && !cursor.take(".common")) {
        break;
      }
    }
    if (cursor.take(".entry")) {
      entry();
    } else if (cursor.take(".func")) {
      function();
    } else if (isVariableSpace(cursor.peek().text)) {
      parseVariables(cursor, module, names, external);
    } else {
      cursor.fail("unknown directive '" + std::string(cursor.peek().text) + "'");
    }
  }

  /// Functions are passed over: a `call` of one is refused where it stands.
  void function() {
    while (!cursor.is("{") && !cursor.is(";") && !cursor.atEnd()) {
      cursor.next();
    }
    if (!cursor.take(";")) {
      cursor.skipBlock();
    }
  }

  void entry() {
    Function kernel;
    kernel.line = cursor.peek().line;
    kernel.name = cursor.word();
    if (cursor.take("(")) {
      while (!cursor.take(")")) {
        kernel.params.push_back(param(kernel.param_bytes));
        cursor.take(",");
      }
    }
    while (!cursor.is("{")) {
      if (cursor.take(";")) {
        return; // a prototype
      }
      performanceDirective(kernel);
    }
    parseBody(cursor, module, names, kernel);
    module.kernels.push_back(std::move(kernel));
  }

  Param param(uint64_t &total) {
    Param result;
    cursor.expect(".param");
    uint64_t element = 0;
    while (cursor.peek().text.starts_with(".")) {
      const std::string word = cursor.word();
      Type type;
      if (word == ".align") {
        const auto align = static_cast<uint64_t>(cursor.integer());
        // After .ptr it is the alignment of what the pointer points to, not of the parameter.
        result.align = element ? result.align : align;
      } else if (parseType(word.substr(1), type)) {
        element = bytesOf(type);
        result.align = std::max<uint64_t>(result.align, element);
      } else if (word != ".ptr" && word != ".global" && word != ".shared" && word != ".const" &&
                 word != ".local") {
        cursor.fail("unknown parameter attribute " + word);
      }
    }
    result.name = cursor.word();
    result.bytes = element;
    if (cursor.take("[")) {
      result.bytes = element * static_cast<uint64_t>(cursor.integer());
      cursor.expect("]");
    }
    result.offset = alignUp(total, result.align);
    total = result.offset + result.bytes;
    return result;
  }

  void extents(std::array<uint32_t, 3> &to) {
    to = {1, 1, 1};
    size_t axis = 0;
    do {
      if (axis == 3) {
        cursor.fail("more than three extents");
      }
      to[axis++] = static_cast<uint32_t>(cursor.integer());
    } while (cursor.take(","));
  }

  void performanceDirective(Function &kernel) {
    const std::string word = cursor.word();
    if (word == ".reqntid") {
      extents(kernel.reqntid);
    } else if (word == ".maxntid") {
      extents(kernel.maxntid);
    } else if (word == ".minnctapersm") {
      kernel.min_ctas = static_cast<uint32_t>(cursor.integer());
    } else if (word == ".maxnctapersm" || word == ".maxnreg" || word == ".maxclusterrank") {
      cursor.integer();
    } else if (word == ".reqnctapercluster") {
      std::array<uint32_t, 3> cluster;
      extents(cluster);
      if (cluster[0] * cluster[1] * cluster[2] != 1) {
        cursor.fail("clusters of more than one CTA are not emulated");
      }
    } else if (word == ".pragma") {
      cursor.next();
      cursor.take(";");
    } else if (word != ".explicitcluster" && word != ".noreturn") {
      cursor.fail("unknown kernel directive " + word);
    }
  }

  Cursor cursor;
  Module module;
  NameTable names;
};

} // namespace

Module parseModule(std::string_view text) {
  while (!text.empty() && text.back() == '\0') {
    text.remove_suffix(1);
  }
  return ModuleParser(text).run();
}

} // namespace smelt::emu
