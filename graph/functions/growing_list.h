// Lists that grow in a loop of the graph: a buffer whose length is a symbol, and how many of its places are taken. AutoGraph's lists are
// made of these. The symbol means what the count is after the loop, so that the buffer is full then.
#pragma once
#include "graph/frontend/tensor.h"

namespace lamina::list {

// Zeros [symbol, element...]. Throws invalid_argument inside of a loop's or branch's own trace.
LAMINA_API Tensor buffer(const TensorType& element, CallSite at = std::source_location::current());
// The buffer with a value at a position (i64[]).
LAMINA_API Tensor set(const Tensor& buffer, const Tensor& position, const Tensor& value, CallSite at = std::source_location::current());
// After the loop: count (i64[]) says how long the buffer is. The function that is traced computes it first, then plans the rest.
LAMINA_API void close(const Tensor& buffer, const Tensor& count);

}  // namespace lamina::list
