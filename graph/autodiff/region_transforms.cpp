#include "graph/autodiff/region_transforms.h"

#include "graph/autodiff/batch.h"
#include "graph/autodiff/gradient.h"

namespace lamina::autodiff {

const ir::RegionTransforms& region_transforms(bool same_draws) {
  static const ir::RegionTransforms own{.gradient = region_gradient, .batch = batch_region<false>},
      same{.gradient = region_gradient, .batch = batch_region<true>};
  return same_draws ? same : own;
}

}  // namespace lamina::autodiff
