#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace lamina::passes {

Graph remove_dead_nodes(const Graph& g) { return without_dead_nodes(g); }

}  // namespace lamina::passes
