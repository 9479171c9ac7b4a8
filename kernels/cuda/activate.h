// A layer's activation, chosen while the kernel runs, and the gradient through one. C: float or double.
#pragma once
#include "kernels/cuda/device.h"
#include "kernels/section/table.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda {

using section::Activation;

template <class C>
LAMINA_DEVICE C activate(C z, Activation activation, C alpha) {
  switch (activation) {
    case Activation::none: return z;
    case Activation::relu: return scalar::relu(z);
    case Activation::tanh: return scalar::tanh(z);
    case Activation::sigmoid: return scalar::sigmoid(z);
    case Activation::elu: return scalar::elu(z, alpha);
    case Activation::gelu: return scalar::gelu(z);
    case Activation::gelu_tanh: return scalar::gelu_tanh(z);
    case Activation::leaky_relu: return scalar::leaky_relu(z, alpha);
    case Activation::silu: return scalar::silu(z);
    case Activation::softplus: return scalar::softplus(z);
  }
  return z;
}
// y: what it gave, or was given where section::of_input() says so.
template <class C>
LAMINA_DEVICE C through_activation(C dy, C y, Activation activation, C alpha) {
  switch (activation) {
    case Activation::none: return dy;
    case Activation::relu: return scalar::relu_grad(dy, y);
    case Activation::tanh: return scalar::tanh_grad(dy, y);
    case Activation::sigmoid: return scalar::sigmoid_grad(dy, y);
    case Activation::elu: return scalar::elu_grad(dy, y, alpha);
    case Activation::gelu: return scalar::gelu_grad(dy, y);
    case Activation::gelu_tanh: return scalar::gelu_tanh_grad(dy, y);
    case Activation::leaky_relu: return scalar::leaky_relu_grad(dy, y, alpha);
    case Activation::silu: return scalar::silu_grad(dy, y);
    case Activation::softplus: return scalar::softplus_grad(dy, y);
  }
  return dy;
}

}  // namespace lamina::kernels::cuda
