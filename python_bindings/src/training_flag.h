// Whether the layers that run on this thread were called to train. A function traced under it is another graph.
#pragma once

namespace lamina::python {

inline thread_local bool training_flag = false;
// Whether the function that is being traced is converted by AutoGraph.
inline thread_local bool autograph_flag = false;

}  // namespace lamina::python
