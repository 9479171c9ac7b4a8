// Which work is one instruction, and the stream of its device that runs it.
#pragma once
#include "graph/compile/emit.h"

namespace lamina::compile {

inline constexpr int kMostStreams = 4;  // of one GPU

// Fills Lowered::groups and streams. A chain stays on one stream. Where work branches and both branches are large, the branch with less
// behind it gets another stream. Sections, loops, host effects and copies between devices stay on their device's first stream. Sections and
// loops have the device to themselves: blocks of a section wait for each other, and beside another kernel whose blocks do, each could keep
// the other's from a multiprocessor for ever. The same plan for the same graph.
void plan_streams(Lowered& lowered, const ir::Graph& g, const Options& options);

}  // namespace lamina::compile
