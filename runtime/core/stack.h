// The running thread's stack: whether a recursion is about to overflow it. What may call itself through a user's code asks before it goes
// deeper.
#pragma once
#include "runtime/core/export.h"

namespace lamina {

// Whether less than a quarter of the stack is left, or less than 1 MB of a large one. False on a stack that is not the thread's own, such
// as a fiber's.
LAMINA_API bool stack_runs_out();

}  // namespace lamina
