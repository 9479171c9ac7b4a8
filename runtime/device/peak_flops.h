// Measures the peak arithmetic rate of one core.
#pragma once
#include "runtime/core/export.h"

namespace lamina {

// f32 operations per second of one core with the instruction set in use (config::cpu_isa()); a multiply-add counts as two. Takes about
// `seconds`; the best of several short runs, so that other load disturbs it little.
LAMINA_API double peak_flops(double seconds = 0.05);

}  // namespace lamina
