// The dtype that holds all numbers of two, and the advice that follows from it.
#pragma once
#include <string>

#include "runtime/core/dtype.h"
#include "runtime/core/export.h"

namespace lamina {

// The smallest dtype that holds every number of both; f64 for i64 and a floating dtype, which none holds.
LAMINA_API DType common_dtype(DType a, DType b);
// How to make them one without losing digits: "convert one of them: lm.astype(x, lm.int16)".
LAMINA_API std::string same_dtype_advice(DType a, DType b);

}  // namespace lamina
