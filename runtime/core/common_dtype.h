// The common dtype of two dtypes, and advice for error messages.
#pragma once
#include <string>

#include "runtime/core/dtype.h"
#include "runtime/core/export.h"

namespace lamina {

// The smallest dtype that holds every number of both. For i64 with a floating dtype none does: f64.
LAMINA_API DType common_dtype(DType a, DType b);
// Advice without loss of digits: "convert one of them: lm.astype(x, lm.int16)".
LAMINA_API std::string same_dtype_advice(DType a, DType b);

}  // namespace lamina
