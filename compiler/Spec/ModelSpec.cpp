#include "compiler/Spec/ModelSpec.h"

namespace smelt::spec {

int64_t ModelSpec::physicalLayers() const { return firstLayer(segments.size()); }

int64_t ModelSpec::executedLayers() const { return firstKvSlot(segments.size()); }

int64_t ModelSpec::firstLayer(size_t index) const {
  int64_t layer = 0;
  for (size_t i = 0; i < index; ++i) {
    layer += segments[i].layers;
  }
  return layer;
}

int64_t ModelSpec::firstKvSlot(size_t index) const {
  int64_t slot = 0;
  for (size_t i = 0; i < index; ++i) {
    slot += segments[i].executedLayers();
  }
  return slot;
}

} // namespace smelt::spec
