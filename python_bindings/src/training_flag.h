// Whether this thread's layers run in training mode. It is part of a traced function's key.
#pragma once

namespace lamina::python {

inline thread_local bool training_flag = false;
// Whether the function being traced is converted by AutoGraph.
inline thread_local bool autograph_flag = false;

}  // namespace lamina::python
