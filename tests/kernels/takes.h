// The element types of a scalar operation, for tests of kernels with all of them.
#pragma once
#include "kernels/shared/scalar_op.h"
#include "runtime/core/dtype.h"

namespace lamina::tests {

inline bool takes(kernels::ScalarOp op, DType d) {
  switch (domain(op)) {
    case kernels::Domain::floating: return is_floating(d);
    case kernels::Domain::numeric: return d != DType::boolean;
    case kernels::Domain::integer: return is_integer(d);
    case kernels::Domain::bits: return !is_floating(d);
    case kernels::Domain::boolean: return d == DType::boolean;
    case kernels::Domain::any: return true;
  }
  return false;
}

}  // namespace lamina::tests
