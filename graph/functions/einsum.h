// Sums of products over named axes, and functions built on them.
#pragma once
#include <string>
#include <vector>

#include "graph/functions/op_functions.h"

namespace lamina {

// Einstein summation as in NumPy: einsum("ijk,kl->ijl", {a, b}) sums over k. One letter per axis; without "->" the result has the letters
// that occur once, in alphabetical order; "..." stands for axes that broadcast; a letter twice in one operand takes its diagonal. Axes of
// length 1 broadcast. More than two operands are contracted in the order with the fewest multiplications. Built from transposes, reshapes,
// sums and matmuls.
LAMINA_API Tensor einsum(const std::string& expression, const std::vector<Tensor>& operands, CallSite at = std::source_location::current());
// The same, einsum("ijk,kl->ijl", a, b).
struct EinsumExpression {
  std::string text;
  CallSite at;
  EinsumExpression(const char* expression, CallSite site = std::source_location::current()) : text(expression), at(site) {}
};
template <class... Tensors>
Tensor einsum(const EinsumExpression& expression, const Tensor& first, const Tensors&... others) {
  return einsum(expression.text, std::vector<Tensor>{first, others...}, expression.at);
}
// Contracts the last `axes` axes of a with the first of b; or pairs of axes.
LAMINA_API Tensor tensordot(const Operand& a, const Operand& b, int axes = 2);
LAMINA_API Tensor tensordot(const Operand& a, const Operand& b, const Axes& axes_a, const Axes& axes_b);
// As in NumPy: for vectors the inner product, for scalars the product, otherwise the sum over a's last axis and b's second to last (the
// last of a vector).
LAMINA_API Tensor dot(const Operand& a, const Operand& b);
LAMINA_API Tensor vdot(const Operand& a, const Operand& b);   // of the flattened tensors
LAMINA_API Tensor inner(const Operand& a, const Operand& b);  // over the last axis of both
LAMINA_API Tensor outer(const Operand& a, const Operand& b);  // [m, n] of the flattened tensors

}  // namespace lamina
