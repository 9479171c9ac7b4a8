// Names of instructions in profilers and explain(): the user's layer, the op, the fused ops, the user's line.
#pragma once
#include <span>
#include <string>

#include "graph/compile/emit.h"

namespace lamina::compile {

// "dense_1/dense(matmul, add, relu)"
std::string label(const ir::Node& node);
// Fills in the names of a section's steps, one per work. Returns the layers: "dense_1 train.py:9; dense_2 train.py:9".
std::string name_steps(section::TableWithLoops& table, std::span<const Work> work, const ir::Graph& g);

}  // namespace lamina::compile
