// The order in which a graph's nodes run.
#pragma once
#include <vector>

#include "graph/compile/select.h"

namespace lamina::compile {

// Every node index once, after its inputs; effects on one resource keep program order. Small nodes that depend on inputs alone come first,
// those that only outputs need last. With one thread, a weight update runs as soon as its last input is made and the old weight has no more
// readers: the gradient is still in cache, and its memory is freed at once. With several threads, updates come after the chain of input
// gradients, so that the chain runs without waiting; what ranks exchange does not. If it gathers updates, small elementwise nodes of a GPU
// that only assignments need come right before these; the gradients live until then.
std::vector<int> schedule(const Selection& selection, int threads, bool gathers_updates);

}  // namespace lamina::compile
