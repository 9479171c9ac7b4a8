// Small damages of graphs, for tests of what reads them: most of what comes out is still a graph, and some of it is one that no trace
// makes.
#pragma once
#include "graph/ir/graph.h"
#include "tests/damaged_text.h"

namespace lamina::tests {

// The graph with one operand, attribute, op, type of an input or resource, output or device changed, in itself or in a region. Shape rules
// give the types of all nodes behind it; throws what they throw.
ir::Graph with_one_change(const ir::Graph& g, Random& random);

}  // namespace lamina::tests
