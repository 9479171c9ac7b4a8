// Parts of a section that need nothing of each other, such as models trained side by side: each is one thread's.
#pragma once
#include "graph/compile/emit.h"

namespace lamina::compile {

// Fills Work::owner where a run of steps falls into parts that can be given to the threads evenly. One thread then does all of a part,
// without waiting for the others between its layers, and with a part's values in one core's cache. No number changes: how steps are shared
// never does.
void assign_owners(Lowered& lowered, const Options& options, int threads);

}  // namespace lamina::compile
