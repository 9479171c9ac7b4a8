// The C functions of many elements: products, sums, rows, order, draws. Part of scalar_functions.h, by the same marks.
#pragma once
#include <string>

#include "runtime/core/dtype.h"

namespace lamina::c_text {

// The definition of lm_NAME for this type, with the marks of scalar_functions.cpp; empty when there is none.
std::string row_function(const std::string& name, DType dtype);

}  // namespace lamina::c_text
