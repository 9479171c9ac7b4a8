#include "graph/autodiff/region_transforms.h"

#include "graph/autodiff/batch.h"
#include "graph/autodiff/gradient.h"

namespace lamina::autodiff {

const ir::RegionTransforms& region_transforms() {
  static const ir::RegionTransforms all{.gradient = region_gradient, .batch = batch_region};
  return all;
}

}  // namespace lamina::autodiff
