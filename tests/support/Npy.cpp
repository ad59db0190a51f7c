#include "tests/support/Npy.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace smelt::tests {

Matrix readNpy(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto fail = [&](const std::string &what) { throw std::runtime_error(path + ": " + what); };
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0 || bytes[6] != 1) {
    fail("not an npy file of version 1");
  }
  const size_t header_size = static_cast<unsigned char>(bytes[8]) | static_cast<unsigned char>(bytes[9]) << 8;
  if (bytes.size() < 10 + header_size) {
    fail("the header is cut short");
  }
  const std::string header = bytes.substr(10, header_size);
  static const std::regex pattern(
      R"(\{'descr': '<f([48])', 'fortran_order': False, 'shape': \((\d+), (\d+)\),? ?\}\s*)");
  std::smatch match;
  if (!std::regex_match(header, match, pattern)) {
    fail("not a row-major matrix of floats: " + header);
  }
  const size_t width = std::stoul(match[1]);
  Matrix matrix{std::stoul(match[2]), std::stoul(match[3]), {}};
  matrix.values.resize(matrix.rows * matrix.columns);
  if (bytes.size() != 10 + header_size + matrix.values.size() * width) {
    fail("the data has another size than the header says");
  }
  const char *data = bytes.data() + 10 + header_size;
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    if (width == sizeof(double)) {
      std::memcpy(&matrix.values[i], data + i * width, width);
    } else {
      float value;
      std::memcpy(&value, data + i * width, width);
      matrix.values[i] = value;
    }
  }
  return matrix;
}

} // namespace smelt::tests
