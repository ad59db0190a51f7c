#include "runtime/src/Cgroups.h"

#include <fstream>

namespace smelt::runtime {
namespace {

void visitUpwards(const std::string &root, std::string path,
                  const std::function<void(const std::string &, int)> &visit, int version) {
  for (;;) {
    visit(root + path, version);
    size_t slash = path.rfind('/');
    if (slash == path.npos) {
      return;
    }
    path.resize(slash);
  }
}

} // namespace

void visitCgroups(std::string_view controller, const std::function<void(const std::string &, int)> &visit) {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) { // "id:controllers:path"; version 2 has no controllers
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) {
      continue;
    }
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      visitUpwards("/sys/fs/cgroup", path, visit, 2);
    } else if (("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos) {
      visitUpwards("/sys/fs/cgroup/" + std::string(controller), path, visit, 1);
    }
  }
}

} // namespace smelt::runtime
