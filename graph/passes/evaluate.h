// Running one node on constants, while compiling.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::passes {

// The node's results for these inputs, by the op's CPU kernel. Nothing when a shape is not known, a result has more than `most_bytes`,
// the op has no kernel, or running it is an error (which then belongs to the call, not to the compiler).
std::optional<std::vector<ir::Literal>> evaluate(const ir::Node& node, std::span<const ir::Literal> inputs, int64_t most_bytes);
// A scalar literal when all elements have the same bytes; needs at least one element.
std::optional<ir::Literal> uniform_element(const ir::Literal& literal);

}  // namespace lamina::passes
