// Names of a Program's instructions in profilers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/profiler.h"
#include "runtime/exec/program.h"

namespace lamina::exec {

// "dense_1/fused_elementwise(mul, sub) train.py:12"; for a section "section of 302 steps: dense_1 train.py:9; dense_2 train.py:9; ...".
// Files are named without folders.
std::vector<profiler::Name> range_names(const Program& program);
// The first line of an instruction's detail.
std::string_view label_of(const Instruction& instruction);
// " train.py:9", to append to a name; "" when the line is unknown.
std::string behind(SourceLine line);

}  // namespace lamina::exec
