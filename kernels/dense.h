// Layers outside of sections, on a GPU: a product, a bias and an activation in one launch. What the CPU computes them with is a step of a
// section (section/table.h).
#pragma once
#include "kernels/elementwise.h"
#include "kernels/section/table.h"

namespace lamina::kernels {

// What an activation does to each element as an elementwise program of one operation: of z, or (its gradient) of dy and what the activation
// gave or, where section::of_input() says so, was given. None for Activation::none.
ElementwiseCode activation_code(section::Activation activation, DType type, float alpha);
ElementwiseCode activation_grad_code(section::Activation activation, DType type, float alpha);

namespace cuda {

// in: x [rows, k], w [k, n], and perhaps a bias [n]; out: y = act(x w + b). With models in front of w and y, each of x and the bias may
// have them too. All contiguous. T: f16, bf16 (computed in float, rounded once), float, double. The sum goes along k in order, unless the
// product is large enough for cuBLASLt (runtime/cuda/products.h), whose order is its own, and which alone takes the precision's name into
// account.
template <class T>
LAMINA_GPU_KERNEL void dense(Stream&, std::span<const View* const> in, std::span<const View* const> out, section::Activation activation,
                             float alpha, Precision precision);
// in: dz [rows, n], w [k, n], and perhaps y [rows, k]; out: dx = (dz w^T) * act'(y).
template <class T>
LAMINA_GPU_KERNEL void dense_grad_input(Stream&, std::span<const View* const> in, std::span<const View* const> out,
                                        section::Activation activation, float alpha, Precision precision);

// in: x [rows, k], dz [rows, n]; out: dw = x^T dz, and db [n], the sums of dz over its rows, as `reduce` makes them. cuBLASLt makes both at
// once where the product is large enough; its order of sums is its own then.
template <class T>
LAMINA_GPU_KERNEL void dense_grad_weights(Stream&, std::span<const View* const> in, std::span<const View* const> out, Precision precision);

}  // namespace cuda
}  // namespace lamina::kernels
