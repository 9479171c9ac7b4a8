// The cases of an op, from which all its checks are generated. In tests/ops/softmax.cpp:
//
//   const OpCases cases{"softmax", [] {
//     return std::vector<OpCase>{
//         {.name = "rows", .in = {{f32({3, 5})}}, .attrs = ir::make_attrs(ops::AxisAttrs{-1}), .reference = softmax_of, .dtypes =
//         kFloating},
//         ...};
//   }};
//
// registers one test per check for Op_softmax: the kernel against a double-precision reference (and that it writes all elements of its
// results and nothing else), strided inputs, threads and instruction sets, a section's step, first and second derivatives against
// differences, the batching rule against a loop, what it may throw, and the text form. Special checks, such as error texts, are ordinary
// tests beside the cases.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/ops/evaluate.h"

namespace lamina::tests {

inline const std::vector<DType> kFloating{DType::f32, DType::f64, DType::f16, DType::bf16};
inline const std::vector<DType> kIntegers{DType::u8, DType::i8, DType::i16, DType::i32, DType::i64};
inline const std::vector<DType> kNumeric{DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8,
                                         DType::i8,  DType::i16, DType::i32, DType::i64};

inline TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
inline TensorType i32(Shape shape) { return {DType::i32, std::move(shape)}; }
inline TensorType i64(Shape shape) { return {DType::i64, std::move(shape)}; }
inline TensorType boolean(Shape shape) { return {DType::boolean, std::move(shape)}; }

// One input: drawn between low and high (for integers both inclusive), or these values, repeated to fill it.
struct CaseInput {
  TensorType type;
  double low = -2, high = 2;
  std::vector<double> values = {};
};

// The expected elements in double precision, from the inputs as the kernel gets them (rounded to their dtype).
using Reference = std::function<std::vector<std::vector<double>>(const std::vector<Tensor>& in)>;

struct OpCase {
  std::string name;
  std::vector<CaseInput> in;
  ir::AttrsRef attrs = nullptr;
  std::vector<ir::GraphRef> regions = {};
  Reference reference = {};                  // empty: the op's decomposition, evaluated in f64
  std::vector<DType> dtypes = {DType::f32};  // each replaces all f32 inputs in turn
  // Tolerance: `ulps` of the result's dtype, relative to the element, or to `of_largest` times the largest one if that is more.
  double ulps = 4, of_largest = 0;
  const char* no_differences = nullptr;  // why the gradient is not checked against differences; printed
  const char* isas_differ = nullptr;     // why instruction sets may differ, within `ulps`; threads never differ
  const char* no_loop = nullptr;         // why batching is not checked against a loop; printed
};

class OpCases {
 public:
  OpCases(const char* op, std::function<std::vector<OpCase>()> make);
};
// If a program defines this, it gets each op's cases instead of the checks above (tests/emulated/ops_test.cpp).
[[gnu::weak]] void take_cases(const ir::OpDef& op, std::function<std::vector<OpCase>()> make);
// The case makers of all ops that have cases.
using CasesOfOps = std::map<std::string, std::function<std::vector<OpCase>()>>;
const CasesOfOps& cases_of_ops();
// The case's inputs with this dtype in place of f32.
std::vector<CaseInput> inputs_as(const OpCase& c, DType dtype);

// The expected results of the case's node for these inputs, in double precision: by the case's reference, or the op's decomposition.
std::vector<std::vector<double>> expected_results(const OpCase& c, const ir::Node& node, const std::vector<Tensor>& inputs);

// For other tests.
Tensor random_tensor(const CaseInput& in, uint64_t seed);
// Compares elementwise as OpCase says; integers and bools exactly. Adds failures that name `what`.
void expect_close(const Tensor& got, const std::vector<double>& want, double ulps, double of_largest, const std::string& what);
double epsilon(DType dtype);
std::vector<std::string> available_isas();

}  // namespace lamina::tests
