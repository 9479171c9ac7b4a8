// The order in which a graph's nodes run.
#pragma once
#include <vector>

#include "graph/compile/select.h"

namespace lamina::compile {

// Every node index once, each after its inputs, effects on one resource in program order. With one thread, weight updates move up to where
// their last input is made and nobody reads the old weight any more: the gradient is still in cache, and its memory is free at once. With
// several, they stay behind the chain of input gradients, which the threads then run without waiting for each other.
std::vector<int> schedule(const Selection& selection, int threads);

}  // namespace lamina::compile
