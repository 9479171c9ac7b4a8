// Dense layers outside of sections, on a GPU: product, bias and activation in one launch. The CPU computes them as a section step
// (section/table.h).
#pragma once
#include "kernels/elementwise.h"
#include "kernels/section/table.h"
#include "runtime/core/precision.h"

namespace lamina::kernels {

// The activation as an elementwise program of one operation: of z, or its gradient of dy and the activation's result (or its input, if
// section::of_input()). Not for Activation::none.
LAMINA_API ElementwiseCode activation_code(section::Activation activation, DType type, float alpha);
LAMINA_API ElementwiseCode activation_grad_code(section::Activation activation, DType type, float alpha);

namespace cuda {

// in: x [rows, k], w [k, n], optionally a bias [n]; out: y = act(x w + b). With a leading model axis in w and y; x and the bias may have it
// too. All contiguous. T: f16, bf16 (computed in float, rounded once), float, double. Sums have the order of kernels/cuda/product.h, unless
// the product is large enough for cuBLASLt (runtime/cuda/products.h), which uses its own order. Only cuBLASLt applies the precision.
template <class T>
void dense(Stream&, std::span<const View* const> in, std::span<const View* const> out, section::Activation activation, float alpha,
           Precision precision);
// in: dz [rows, n], w [k, n], optionally y [rows, k]; out: dx = (dz w^T) * act'(y).
template <class T>
void dense_grad_input(Stream&, std::span<const View* const> in, std::span<const View* const> out, section::Activation activation,
                      float alpha, Precision precision);

// in: x [rows, k], dz [rows, n]; out: dw = x^T dz, and db [n], the sums of dz over its rows, in the order of `reduce`. If the product is
// large enough, cuBLASLt computes both at once, in its own order.
template <class T>
void dense_grad_weights(Stream&, std::span<const View* const> in, std::span<const View* const> out, Precision precision);

}  // namespace cuda
}  // namespace lamina::kernels
