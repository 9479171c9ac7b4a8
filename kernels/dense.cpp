#include "kernels/dense.h"

namespace lamina::kernels {
namespace {

using section::Activation;

ScalarOp op_of(Activation activation, bool gradient) {
  switch (activation) {
    case Activation::none: break;
    case Activation::relu: return gradient ? ScalarOp::relu_grad : ScalarOp::relu;
    case Activation::tanh: return gradient ? ScalarOp::tanh_grad : ScalarOp::tanh;
    case Activation::sigmoid: return gradient ? ScalarOp::sigmoid_grad : ScalarOp::sigmoid;
    case Activation::elu: return gradient ? ScalarOp::elu_grad : ScalarOp::elu;
    case Activation::gelu: return gradient ? ScalarOp::gelu_grad : ScalarOp::gelu;
    case Activation::gelu_tanh: return gradient ? ScalarOp::gelu_tanh_grad : ScalarOp::gelu_tanh;
    case Activation::leaky_relu: return gradient ? ScalarOp::leaky_relu_grad : ScalarOp::leaky_relu;
    case Activation::silu: return gradient ? ScalarOp::silu_grad : ScalarOp::silu;
    case Activation::softplus: return gradient ? ScalarOp::softplus_grad : ScalarOp::softplus;
  }
  return ScalarOp::relu;
}

ElementwiseCode code_of(Activation activation, bool gradient, DType type, float alpha) {
  ElementwiseCode code;
  if (activation == Activation::none) return code;
  code.inputs.assign(gradient ? 2 : 1, type);
  const bool takes_alpha = activation == Activation::elu || activation == Activation::leaky_relu;
  if (takes_alpha) code.constants = {{type, alpha}};
  const int16_t constant = int16_t(code.inputs.size()), result = int16_t(constant + takes_alpha);
  code.instructions = {{.op = op_of(activation, gradient),
                        .type = type,
                        .result = type,
                        .a = 0,
                        .b = int16_t(gradient      ? 1
                                     : takes_alpha ? constant
                                                   : 0),
                        .c = int16_t(gradient && takes_alpha ? constant : 0)}};
  code.outputs = {result};
  return code;
}

}  // namespace

ElementwiseCode activation_code(Activation activation, DType type, float alpha) { return code_of(activation, false, type, alpha); }
ElementwiseCode activation_grad_code(Activation activation, DType type, float alpha) { return code_of(activation, true, type, alpha); }

}  // namespace lamina::kernels
