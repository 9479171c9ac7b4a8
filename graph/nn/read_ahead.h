// Threads that work ahead of the one that consumes elements.
#pragma once
#include <chrono>

#include "graph/nn/elements.h"

namespace lamina::data {

inline constexpr int64_t kAutomatic = -1;

// function(element, item), by `threads` threads at once (1: by the consumer itself; kAutomatic: one per core). Results come in the order of
// the elements. At most twice as many elements as threads are read and not yet consumed. An exception is thrown where its result would have
// come.
ElementsRef mapped_elements(ElementsRef from, MapFunction function, int64_t threads, uint64_t seed);
// A thread reads up to `most` elements ahead. kAutomatic: more whenever the consumer has waited although all places had been full, within
// 256 MiB.
ElementsRef prefetched_elements(ElementsRef from, int64_t most);

// Tells all such threads of this process to end, and waits for them, but no longer than `patience`: one that runs the user's code ends when
// that returns.
LAMINA_API void end_reading_threads(std::chrono::milliseconds patience);
LAMINA_API int64_t reading_threads();  // how many there are

}  // namespace lamina::data
