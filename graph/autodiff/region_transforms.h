// The transforms that ops with regions are given: differentiating and batching are each other's callers through them.
#pragma once
#include "graph/ir/op.h"

namespace lamina::autodiff {

LAMINA_API const ir::RegionTransforms& region_transforms();

}  // namespace lamina::autodiff
