// Ops that a GPU's library makes in a form of its own.
#pragma once
#include <optional>

#include "graph/compile/compile.h"

namespace lamina::compile {

// g, of concrete shapes, with max_pool2d_values in the place of max_pool2d where its device's library is to make it and none but its
// gradients asks for the places, which the library does not have. Nothing where there is no such op.
std::optional<ir::Graph> use_libraries(const ir::Graph& g, const Options& options);

// g, which no pass has seen, of concrete shapes, with those batch_norm_train and gradients of it marked that their device's library is to
// make: the passes leave them whole then. Nothing where there are none.
std::optional<ir::Graph> mark_for_libraries(const ir::Graph& g, const Options& options);
// Whether g, or a region in it, has an op of which mark_for_libraries decides.
bool asks_for_libraries(const ir::Graph& g);

// Whether a node is there only so that a library makes it.
bool is_for_library(const ir::Node& node);

}  // namespace lamina::compile
