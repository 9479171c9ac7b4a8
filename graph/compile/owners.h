// Splits a section into independent parts, such as models trained side by side, and gives each part to one thread.
#pragma once
#include "graph/compile/emit.h"

namespace lamina::compile {

// Sets Work::owner where a run of steps splits into parts that can be divided evenly among the threads. One thread then runs a whole part,
// without barriers between its layers and with its values in one core's cache. Results do not change: how a step divides its rows and sums
// stays the same.
void assign_owners(Lowered& lowered, const Options& options, int threads);

}  // namespace lamina::compile
