// Sums of products over named axes, and what is made of them.
#pragma once
#include <string>
#include <vector>

#include "graph/functions/op_functions.h"

namespace lamina {

// Einstein's summation as in NumPy: einsum("ijk,kl->ijl", {a, b}) sums over k. A letter per axis; without "->" the result has the letters
// that occur once, in alphabetical order; "..." stands for axes that broadcast; a letter twice in one operand is its diagonal. Axes of
// length 1 broadcast. Products of more than two operands are taken in the order with the fewest multiplications. It becomes transposes,
// reshapes, sums and matmuls.
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
// The sum over the last `axes` axes of a with the first of b; or over pairs of axes.
LAMINA_API Tensor tensordot(const Operand& a, const Operand& b, int axes = 2);
LAMINA_API Tensor tensordot(const Operand& a, const Operand& b, const Axes& axes_a, const Axes& axes_b);
// As NumPy's: of vectors the inner product, of scalars the product, otherwise the sum over a's last axis and b's last but one (last of a
// vector).
LAMINA_API Tensor dot(const Operand& a, const Operand& b);
LAMINA_API Tensor vdot(const Operand& a, const Operand& b);   // of the flattened tensors
LAMINA_API Tensor inner(const Operand& a, const Operand& b);  // over the last axis of both
LAMINA_API Tensor outer(const Operand& a, const Operand& b);  // [m, n] of the flattened tensors

}  // namespace lamina
