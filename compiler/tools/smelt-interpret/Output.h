// The files smelt-interpret writes.
#pragma once

#include "dialect/Interpreter/Interpreter.h"

#include <string>
#include <vector>

namespace smelt::interpret {

// A matrix of doubles as numpy.save writes it. Both return why the file could not be written, or nothing.
std::string writeNpy(const std::string &path, const mlir::smelt::interpreter::Tensor &matrix);

// A JSON array with one object for each token and smelt.route of each executed layer: slot, layer, visit,
// token, experts, weights and gap (null when every expert is chosen).
std::string writeRouting(const std::string &path,
                         const std::vector<mlir::smelt::interpreter::Routing> &routings);

} // namespace smelt::interpret
