#include "runtime/src/NameTable.h"

#include <bit>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace smelt::runtime {

uint64_t NameTable::hashOf(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

size_t NameTable::slotOf(std::string_view name, uint64_t hash) const {
  size_t mask = slots.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    if (slots[slot] == 0) {
      return slot;
    }
    const Name &there = names[slots[slot] - 1];
    if (there.hash == hash && there.text == name) {
      return slot;
    }
  }
}

std::pair<uint32_t, bool> NameTable::insert(std::string_view name, uint64_t hash) {
  if (2 * (names.size() + 1) > slots.size()) {
    setSlots(slots.empty() ? 64 : slots.size() * 2);
  }
  uint32_t &slot = slots[slotOf(name, hash)];
  bool isNew = slot == 0;
  if (isNew) {
    names.push_back({name, hash});
    slot = uint32_t(names.size());
  }
  return {slot - 1, isNew};
}

std::optional<uint32_t> NameTable::find(std::string_view name) const {
  uint32_t found = slots.empty() ? 0 : slots[slotOf(name, hashOf(name))];
  return found ? std::optional(found - 1) : std::nullopt;
}

void NameTable::reserve(size_t count) {
  names.reserve(count);
  if (size_t least = std::bit_ceil(2 * count); least > slots.size()) {
    setSlots(least);
  }
}

void NameTable::setSlots(size_t count) {
  slots.assign(count, 0);
  size_t mask = slots.size() - 1;
  for (uint32_t number = 0; number < names.size(); ++number) {
    size_t slot = names[number].hash & mask;
    while (slots[slot] != 0) {
      slot = (slot + 1) & mask;
    }
    slots[slot] = number + 1;
  }
}

} // namespace smelt::runtime
