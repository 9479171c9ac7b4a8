// A known program (kernels/known_codes.h) as an elementwise program.
#pragma once
#include "kernels/elementwise.h"
#include "kernels/known_codes.h"

namespace lamina::kernels {

inline ElementwiseCode code_of(const KnownCode& known, const std::vector<double>& constants) {
  ElementwiseCode code;
  code.inputs.assign(size_t(known.inputs), DType::f32);
  for (int c = 0; c < known.constants; ++c) code.constants.emplace_back(DType::f32, constants.at(size_t(c)));
  for (int i = 0; i < known.instructions; ++i)
    code.instructions.push_back({known.code[i].op, DType::f32, DType::f32, known.code[i].a, known.code[i].b});
  code.outputs.assign(known.output, known.output + known.outputs);
  return code;
}

}  // namespace lamina::kernels
