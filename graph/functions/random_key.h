// Keys: draws that depend on a value rather than on a generator's state, as in JAX. A key is i64[2] {seed, counter}, or [..., 2] for one
// per model. The same key gives the same numbers, so each is used once: split() makes new ones.
#pragma once
#include "graph/frontend/tensor.h"

namespace lamina::random {

LAMINA_API Tensor key(int64_t seed);
LAMINA_API Tensor split(const Operand& key, int64_t count = 2);  // [count, 2]

// While it lives, this thread's draws come from a key instead of a generator. Throws type or invalid_argument for what is no key.
class LAMINA_API KeyScope {
 public:
  explicit KeyScope(const Operand& key);
  ~KeyScope();
  KeyScope(const KeyScope&) = delete;
  KeyScope& operator=(const KeyScope&) = delete;

 private:
  Tensor before_;
};

// Of 0, ..., n - 1 (i64): with replacement each equally likely or with probabilities p [n]; without, no number twice.
LAMINA_API Tensor choice(int64_t n, const Shape& shape, bool replace = true, const Tensor& p = {},
                         CallSite at = std::source_location::current());

}  // namespace lamina::random
