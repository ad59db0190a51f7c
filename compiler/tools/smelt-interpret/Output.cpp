#include "compiler/tools/smelt-interpret/Output.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

using namespace mlir::smelt::interpreter;

namespace smelt::interpret {

static std::string writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  return stream ? std::string() : path + ": cannot be written: " + std::strerror(errno);
}

std::string writeNpy(const std::string &path, const Tensor &matrix) {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" + std::to_string(matrix.rows()) +
                       ", " + std::to_string(matrix.width()) + "), }";
  // Magic, version 1.0 and the header's size come first; blanks and a newline make it all a multiple of 64.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char *>(matrix.values.data()), matrix.values.size() * sizeof(double));
  return writeFile(path, bytes);
}

std::string writeRouting(const std::string &path, const std::vector<Routing> &routings) {
  nlohmann::ordered_json choices = nlohmann::ordered_json::array();
  for (const Routing &routing : routings) {
    const int64_t top_k = routing.indices.width();
    for (int64_t token = 0; token < routing.indices.rows(); ++token) {
      const double *experts = routing.indices.row(token), *weights = routing.weights.row(token);
      const double gap = routing.gaps[token];
      choices.push_back(
          {{"slot", routing.place.slot},
           {"layer", routing.place.layer},
           {"visit", routing.place.visit},
           {"token", token},
           {"experts", std::vector<int64_t>(experts, experts + top_k)},
           {"weights", std::vector<double>(weights, weights + top_k)},
           {"gap", std::isfinite(gap) ? nlohmann::ordered_json(gap) : nlohmann::ordered_json()}});
    }
  }
  return writeFile(path, choices.dump(1) + "\n");
}

} // namespace smelt::interpret
