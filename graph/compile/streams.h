// Groups work into instructions and chooses the stream of each.
#pragma once
#include "graph/compile/emit.h"

namespace lamina::compile {

inline constexpr int kUsualStreams = 4, kMostStreams = 8;  // of one GPU: at most, if no number is asked for; and if one is

// Fills Lowered::groups and streams; deterministic. A chain stays on one stream. Where work branches and both branches are large, the
// branch with less work after it gets another stream. Sections, loops, host effects and copies between devices use their device's first
// stream. Sections and loops run alone on a device: their blocks wait for each other, and two such kernels at once could deadlock over the
// multiprocessors. Exchanges between ranks have a stream of their own where large work comes before what needs their results, also beside
// sections, which leave multiprocessors to them.
void plan_streams(Lowered& lowered, const ir::Graph& g, const Options& options);

}  // namespace lamina::compile
