// Random draws. The default generator is a Variable, i64[2] {seed, counter}: a draw reads it and assigns the advanced counter, so eager and
// traced programs, and every thread count, give the same numbers.
#pragma once
#include "graph/frontend/tensor.h"
#include "graph/frontend/variable.h"

namespace lamina {

namespace random {
LAMINA_API void set_seed(int64_t seed);  // and the counter to 0
LAMINA_API Variable default_generator();
LAMINA_API Tensor uniform(const Shape& shape, DType dtype = DType::f32, double low = 0, double high = 1, CallSite at = std::source_location::current());
LAMINA_API Tensor normal(const Shape& shape, DType dtype = DType::f32, double mean = 0, double deviation = 1, CallSite at = std::source_location::current());
// Takes one draw from `generator`: its state {seed, counter} for an op, after which the counter has advanced.
LAMINA_API Tensor next_state(const Variable& generator, CallSite at = {});
// A seed for randomness on the host: a new weight's first value, the order of a shuffle. It follows from set_seed's seed and from how many were
// asked for since, not from the draws above, so a model has the same weights whether an eager or a traced call builds it.
LAMINA_API uint64_t next_host_seed();
}  // namespace random

inline Tensor uniform(const Shape& shape, DType dtype = DType::f32, double low = 0, double high = 1, CallSite at = std::source_location::current()) {
  return random::uniform(shape, dtype, low, high, at);
}
// Each element is 0 with probability rate, else x / (1 - rate). 0 <= rate < 1.
LAMINA_API Tensor dropout(const Operand& x, double rate);

}  // namespace lamina
