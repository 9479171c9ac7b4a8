#include "kernels/dense.h"

namespace lamina::kernels {
namespace {

using section::Activation;

ElementwiseCode code_of(Activation activation, bool gradient, DType type, float alpha) {
  ElementwiseCode code;
  if (activation == Activation::none) return code;
  code.inputs.assign(gradient ? 2 : 1, type);
  const section::ActivationRow& row = section::row_of(activation);
  const bool takes_alpha = row.parameter == section::Parameter::alpha;
  if (takes_alpha) code.constants = {{type, alpha}};
  const int16_t constant = int16_t(code.inputs.size()), result = int16_t(constant + takes_alpha);
  code.instructions = {{.op = gradient ? row.gradient : row.op,
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
