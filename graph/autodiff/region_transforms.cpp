#include "graph/autodiff/region_transforms.h"

#include "graph/autodiff/batch.h"

namespace lamina::autodiff {

const ir::RegionTransforms& region_transforms() {
  static const ir::RegionTransforms all{.gradient = nullptr, .batch = batch_region};
  return all;
}

}  // namespace lamina::autodiff
