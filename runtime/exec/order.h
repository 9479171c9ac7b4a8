// The happens-before check of a Program: what streams and events alone guarantee, whatever the times are.
#pragma once
#include <string>

#include "runtime/exec/program.h"

namespace lamina::exec {

// Whether it is an exchange between ranks that has a stream beside its device's first one, where other host effects are: the device's other
// work goes on meanwhile, also work that is otherwise alone.
LAMINA_API bool is_exchange(const Program& program, const Instruction& instruction);

// The first two instructions that may run at the same time, or in either order, although one writes bytes that the other uses (values and
// reused memory of arenas alike), one must be alone on their device, or both print or check. "" if there are none. Also a wait for an event
// that no earlier instruction signals. Each stream has a vector clock; O(n^2) in the worst case.
LAMINA_API std::string what_is_unordered(const Program& program);

}  // namespace lamina::exec
