// Numbers names: a hash table for the thousands of tensors of a file, whose names lie in its header.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace smelt::runtime {

class NameTable {
public:
  // The name's number, counted from 0 in the order of first insertion, and whether it is new. The text must
  // outlive the table.
  std::pair<uint32_t, bool> insert(std::string_view name) { return insert(name, hashOf(name)); }
  // The same for a name whose hash is known.
  std::pair<uint32_t, bool> insert(std::string_view name, uint64_t hash);
  std::optional<uint32_t> find(std::string_view name) const;

  // Makes room for so many names.
  void reserve(size_t count);

  size_t size() const { return names.size(); }
  uint64_t hash(uint32_t number) const { return names[number].hash; }

private:
  static uint64_t hashOf(std::string_view name);
  // Where the name is in `slots`, or the empty one where it belongs.
  size_t slotOf(std::string_view name, uint64_t hash) const;
  void setSlots(size_t count);

  struct Name {
    std::string_view text;
    uint64_t hash;
  };
  std::vector<Name> names;
  std::vector<uint32_t> slots; // number + 1, 0 when empty; a power of two, at most half of them taken
};

} // namespace smelt::runtime
