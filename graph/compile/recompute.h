// Less memory for more work: values that wait through a graph's fullest moment are dropped and computed again where they are next used.
#pragma once
#include "graph/ir/graph.h"

namespace lamina::compile {

// g (concrete shapes) with most of the values that are made before its fullest moment and used after it computed a second time, by the same
// nodes from the same values, so with the same bits: of `stride` in a row the first is kept. What has effects or regions runs once.
LAMINA_API ir::Graph recompute_values(const ir::Graph& g, int stride);

}  // namespace lamina::compile
