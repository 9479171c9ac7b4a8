// Lists that grow in a loop of the graph, for AutoGraph: a buffer whose length is a symbol, and a count of the elements in use. The
// symbol's value is the count after the loop, when the buffer is full.
#pragma once
#include "graph/frontend/tensor.h"

namespace lamina::list {

// Zeros [symbol, element...]. Throws invalid_argument inside of a loop's or branch's own trace.
LAMINA_API Tensor buffer(const TensorType& element, CallSite at = std::source_location::current());
// The buffer with `value` at a position (i64[]).
LAMINA_API Tensor set(const Tensor& buffer, const Tensor& position, const Tensor& value, CallSite at = std::source_location::current());
// After the loop: sets the buffer's length to count (i64[]). The traced function computes it first, then plans the rest.
LAMINA_API void close(const Tensor& buffer, const Tensor& count);

}  // namespace lamina::list
