// Expected results of elementwise ops in double precision, and the ranges of their test inputs: one row per op.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "runtime/core/dtype.h"

namespace lamina::tests {

struct ElementwiseRow {
  const char* op;
  double (*f)(double a, double b, double c);   // with as many arguments as operands
  double low = -2, high = 2;                   // of the first operand
  double low2 = -2, high2 = 2;                 // of the others
  double ulps = 0.51;                          // default: one rounding
  double of_largest = 0;                       // for differences, which may cancel
  const std::vector<DType>* dtypes = nullptr;  // instead of all that the op takes
};
std::span<const ElementwiseRow> elementwise_rows();
const ElementwiseRow& elementwise_row(std::string_view op);  // throws internal when the op has none

}  // namespace lamina::tests
