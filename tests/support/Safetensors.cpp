#include "tests/support/Safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace smelt::tests {

std::string readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void writeBytes(const std::string &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + path);
  }
}

TensorMap readSafetensors(const std::string &path) {
  const std::string bytes = readBytes(path);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, header_size));
  TensorMap tensors;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], bytes.substr(8 + header_size + begin, end - begin)};
  }
  return tensors;
}

void writeSafetensors(const std::string &path, const TensorMap &tensors) {
  nlohmann::json header;
  std::string data;
  for (const auto &[name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  std::string bytes(sizeof(size), '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  writeBytes(path, bytes + text + data);
}

TensorMap roundedToBf16(const TensorMap &tensors) {
  TensorMap rounded = tensors;
  for (auto &[name, tensor] : rounded) {
    if (tensor.dtype != "F32") {
      continue;
    }
    std::string narrow(tensor.bytes.size() / 2, '\0');
    for (size_t i = 0; i < narrow.size() / 2; ++i) {
      uint32_t bits;
      std::memcpy(&bits, tensor.bytes.data() + 4 * i, 4);
      const uint16_t upper = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
      std::memcpy(narrow.data() + 2 * i, &upper, 2);
    }
    tensor = {"BF16", tensor.shape, narrow};
  }
  return rounded;
}

} // namespace smelt::tests
