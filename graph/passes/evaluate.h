// Constant folding: runs one node on constants at compile time.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "graph/ir/graph.h"

namespace lamina::passes {

// The node's results by the op's CPU kernel. Empty when a shape is unknown, a result exceeds `most_bytes`, the op has no kernel, or running
// it fails (the error then occurs in the call, not in the compiler).
std::optional<std::vector<ir::Literal>> evaluate(const ir::Node& node, std::span<const ir::Literal> inputs, int64_t most_bytes);
// The common element as a scalar literal when all elements have the same bytes; needs at least one element.
std::optional<ir::Literal> uniform_element(const ir::Literal& literal);

}  // namespace lamina::passes
