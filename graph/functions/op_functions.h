// The ops as functions of tensors, and C++'s operators. Binary ops broadcast as in NumPy. They take two tensors of one dtype, or a tensor
// and a weakly typed number; otherwise an error of kind type. In arithmetic a bool takes the other operand's dtype; functions of floating
// point, / among them, take integers and bools as f32 (operation_dtype in runtime/core/common_dtype.h).
#pragma once
#include <optional>
#include <vector>

#include "graph/frontend/factories.h"
#include "graph/frontend/tensor.h"

namespace lamina {

// --- elementwise: those of the table, then those that take more than operands ---
#define LAMINA_OPERANDS_1 const Operand& x
#define LAMINA_OPERANDS_2 const Operand &a, const Operand &b
#define ELEMENTWISE(name, operands, domain, result, cost, access, ...) \
  LAMINA_IF_FUNCTION(access, LAMINA_API Tensor name(LAMINA_OPERANDS_##operands);)
#include "kernels/shared/elementwise_ops.inc"
// a to the power b. For integers, b may not be a negative number; negative elements of a tensor give 0, except for the bases 1 and -1.
LAMINA_API Tensor pow(const Operand& a, const Operand& b);
// a where the condition (bool) is true, else b.
LAMINA_API Tensor where(const Operand& condition, const Operand& a, const Operand& b);
// Complex numbers as pairs of real and imaginary part along a new last axis, and the inverse.
LAMINA_API Tensor as_real(const Operand& z);
LAMINA_API Tensor as_complex(const Operand& pairs);
LAMINA_API Tensor conj(const Operand& z);  // the opposite imaginary parts; z itself where it is not complex
LAMINA_API Tensor astype(const Operand& x, DType dtype);
// x limited to [low, high] (low > high gives high); at the bounds x gets the gradient too.
LAMINA_API Tensor clip(const Operand& x, const Operand& low, const Operand& high);
// Bitwise complement for integers; logical not for bools.
LAMINA_API Tensor bitwise_not(const Operand& x);
inline Tensor remainder(const Operand& a, const Operand& b) { return mod(a, b); }

// --- activations besides relu, sigmoid, silu, softplus and tanh; softmax is below ---
// x times the standard normal distribution function of x; approximate: the tanh form, within 5e-4 of it.
LAMINA_API Tensor gelu(const Operand& x, bool approximate = false);
// x where it is positive, else alpha (exp(x) - 1). Clevert, Unterthiner and Hochreiter 2015.
LAMINA_API Tensor elu(const Operand& x, const Operand& alpha = 1);
// x where it is positive, else slope x.
LAMINA_API Tensor leaky_relu(const Operand& x, const Operand& slope = 0.01);
// 1.0507 elu(x, 1.6733): keeps mean 0 and variance 1. Klambauer, Unterthiner, Mayr and Hochreiter 2017.
LAMINA_API Tensor selu(const Operand& x);
// clip(x / 6 + 1/2, 0, 1).
LAMINA_API Tensor hard_sigmoid(const Operand& x);

// --- products ---
// Matrix product over the last two axes, the others broadcast. A vector on the left is a row, on the right a column, and its axis is
// dropped from the result: [n] x [n] -> [], [m,k] x [k] -> [m].
LAMINA_API Tensor matmul(const Operand& a, const Operand& b, bool transpose_a = false, bool transpose_b = false);

// --- reductions: over `axes` (negative: from the end), by default all, none for Axes{}; keepdims keeps them with length 1 ---
LAMINA_API Tensor sum(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
LAMINA_API Tensor mean(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
LAMINA_API Tensor max(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
LAMINA_API Tensor min(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
LAMINA_API Tensor prod(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
// Whether all (any) elements are true, or not 0. Empty: true, false.
LAMINA_API Tensor all(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
LAMINA_API Tensor any(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
LAMINA_API Tensor count_nonzero(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);  // i64
// log(sum(exp(x))) without overflow; -inf when empty.
LAMINA_API Tensor logsumexp(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false);
LAMINA_API Tensor squared_size(const Operand& x);  // |x|^2, real also of complex numbers
// The variance (mean square deviation), and its root. The divisor is the number of elements minus ddof, at least 0: NaN or infinity then,
// as in NumPy. The root's gradient at 0 is 0.
LAMINA_API Tensor var(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false, double ddof = 0);
LAMINA_API Tensor std(const Operand& x, const AxesOrAll& axes = {}, bool keepdims = false, double ddof = 0);
// The norm over the axes as one vector: (sum |x|^ord)^(1/ord). Infinity: the largest |x|; -infinity: the smallest; 0: the number of
// nonzeros. The gradient at an element that is 0 is 0.
LAMINA_API Tensor norm(const Operand& x, double ord = 2, const AxesOrAll& axes = {}, bool keepdims = false);
// Cumulative sums along one axis. reverse: from the end; exclusive: without the element itself.
LAMINA_API Tensor cumsum(const Operand& x, int axis = -1, bool reverse = false, bool exclusive = false);
// i64 index of the first maximum (minimum) along one axis.
LAMINA_API Tensor argmax(const Operand& x, int axis = -1, bool keepdims = false);
LAMINA_API Tensor argmin(const Operand& x, int axis = -1, bool keepdims = false);

// --- shapes ---
// One dimension may be -1: it is inferred.
LAMINA_API Tensor reshape(const Operand& x, const std::vector<int64_t>& shape);
LAMINA_API Tensor reshape_to(const Operand& x, const Shape& shape);  // dimensions may be symbols
LAMINA_API Tensor flatten(const Operand& x, int first_axis = 0);     // [a,b,c], first_axis 1 -> [a, b c]
LAMINA_API Tensor broadcast_to(const Operand& x, const Shape& shape);
LAMINA_API Tensor transpose(const Operand& x, const AxesOrAll& order = {});  // default: reversed
LAMINA_API Tensor expand_dims(const Operand& x, int axis);
LAMINA_API Tensor squeeze(const Operand& x, const AxesOrAll& axes = {});  // default: all of length 1
LAMINA_API Tensor concat(const std::vector<Tensor>& parts, int axis = 0, CallSite at = std::source_location::current());
LAMINA_API Tensor stack(const std::vector<Tensor>& parts, int axis = 0, CallSite at = std::source_location::current());
// x[begin : end : step] per axis, with Python's rules for negative numbers. Missing axes are kept whole.
LAMINA_API Tensor slice(const Operand& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                        const std::vector<int64_t>& step = {});
// Slices of x along axis, selected by an integer tensor; x and indices share the first batch_axes axes. Out of range: an error of kind
// index at run time.
LAMINA_API Tensor gather(const Operand& x, const Operand& indices, int axis = 0, int batch_axes = 0);
LAMINA_API Tensor one_hot(const Operand& labels, int64_t classes, DType dtype = DType::f32);

// One part of x[...], as in Python.
struct IndexPart {
  enum class Kind : uint8_t { element, range, new_axis, rest, tensor };
  Kind kind = Kind::element;
  int64_t element = 0;
  std::optional<int64_t> start, stop, step;  // of a range
  Tensor indices;                            // integer: rows to gather
  static IndexPart at(int64_t i) { return {Kind::element, i, {}, {}, {}, {}}; }
  static IndexPart range(std::optional<int64_t> start = {}, std::optional<int64_t> stop = {}, std::optional<int64_t> step = {}) {
    return {Kind::range, 0, start, stop, step, {}};
  }
};
// x[parts...]. An index out of range is an error of kind index.
LAMINA_API Tensor index(const Operand& x, const std::vector<IndexPart>& parts);
inline Tensor index(const Operand& x, int64_t i) { return index(x, std::vector{IndexPart::at(i)}); }

// --- probabilities and losses ---
LAMINA_API Tensor softmax(const Operand& x, int axis = -1);
LAMINA_API Tensor log_softmax(const Operand& x, int axis = -1);
// logits [...,c], integer labels [...]: -log softmax(logits)[label]. A label outside 0..c-1 is an error of kind index at run time.
LAMINA_API Tensor sparse_cross_entropy(const Operand& logits, const Operand& labels);
// -sum over the last axis of targets * log softmax(logits).
LAMINA_API Tensor softmax_cross_entropy(const Operand& logits, const Operand& targets);
// -sum over the last axis of targets * log probabilities. Probabilities are normalised by their sum and clipped to [1e-7, 1 - 1e-7].
LAMINA_API Tensor categorical_cross_entropy(const Operand& probabilities, const Operand& targets);
// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) for logits x and targets t in 0..1.
LAMINA_API Tensor sigmoid_cross_entropy(const Operand& logits, const Operand& targets);

// --- operators ---
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator%(const Operand& a, const Operand& b) { return mod(a, b); }
inline Tensor operator&(const Operand& a, const Operand& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Operand& a, const Operand& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Operand& a, const Operand& b) { return bitwise_xor(a, b); }
inline Tensor operator<<(const Operand& a, const Operand& b) { return shift_left(a, b); }
inline Tensor operator>>(const Operand& a, const Operand& b) { return shift_right(a, b); }
inline Tensor operator~(const Operand& a) { return bitwise_not(a); }
inline Tensor operator-(const Operand& a) { return neg(a); }
inline Tensor operator==(const Operand& a, const Operand& b) { return equal(a, b); }
inline Tensor operator!=(const Operand& a, const Operand& b) { return not_equal(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return less(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return less_equal(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return greater(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return greater_equal(a, b); }

}  // namespace lamina
