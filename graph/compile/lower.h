// From scheduled nodes to a Program: storages and slots for values, instructions and sections for nodes, events between streams.
#pragma once
#include "graph/compile/schedule.h"

namespace lamina::compile {

std::shared_ptr<const exec::Program> lower(const Selection& selection, const std::vector<int>& order, const Options& options, int threads);

}  // namespace lamina::compile
