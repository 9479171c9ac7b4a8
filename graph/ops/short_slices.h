// Slices of open axes that are shorter in a call than in the trace.
#pragma once
#include <optional>

#include "graph/ir/graph.h"

namespace lamina::ops {

// A slice of an axis of open length is traced as if the axis were long enough: x[3:] has n-3 elements, x[:5] has 5. For an axis that is
// shorter in a call, a shape that was computed from this length is wrong. Returns the graph for a call's lengths if some slices are short
// and all nodes that use them take their lengths from them; nothing if no slice is short. Otherwise throws signature, or index for an
// element that the axis lacks, with the slice's line.
LAMINA_API std::optional<ir::Graph> with_short_slices(const ir::Graph& traced, const DimBindings& lengths);

// Whether an axis of a value is shorter than in the trace for some lengths for which the slices that it comes from are short.
LAMINA_API bool may_be_short(const ir::Graph& traced, ir::Value value, size_t axis);

}  // namespace lamina::ops
