// The control groups around this process.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace smelt::runtime {

// Calls visit(folder, version) for each group that limits `controller` ("memory", "cpu"), the innermost
// first: the process's group of the version 2 hierarchy or of the controller's version 1 hierarchy, and all
// groups above it.
void visitCgroups(std::string_view controller,
                  const std::function<void(const std::string &folder, int version)> &visit);

} // namespace smelt::runtime
