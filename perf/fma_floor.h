// The machine's arithmetic floor, measured: how fast one core multiplies and adds when nothing else is in the way.
#pragma once

namespace lamina::perf {

// f32 operations per second of one core with the instruction set in use (config::cpu_isa()): a multiplication and an addition count as
// two. The best of several short runs, so that a busy machine disturbs it little; takes about `seconds`.
double peak_flops(double seconds = 0.05);

}  // namespace lamina::perf
