// The transforms passed to ops with regions. Differentiation and batching call each other through them.
#pragma once
#include "graph/ir/op.h"

namespace lamina::autodiff {

LAMINA_API const ir::RegionTransforms& region_transforms(bool same_draws = false);  // as in BatchRequest

}  // namespace lamina::autodiff
