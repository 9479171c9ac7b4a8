// A layer's activation, selected at run time, and its gradient. C: float or double.
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
#define ACTIVATION(name, slope, parameter) \
  case Activation::name: return LAMINA_ACTIVATION_CALL(parameter, name, z);
#include "kernels/shared/elementwise_ops.inc"
  }
  return z;
}
// y: the activation's result, or its input if section::of_input().
template <class C>
LAMINA_DEVICE C through_activation(C dy, C y, Activation activation, C alpha) {
  switch (activation) {
    case Activation::none: return dy;
#define ACTIVATION(name, slope, parameter) \
  case Activation::name: return LAMINA_ACTIVATION_CALL(parameter, name##_grad, dy, y);
#include "kernels/shared/elementwise_ops.inc"
  }
  return dy;
}

}  // namespace lamina::kernels::cuda
