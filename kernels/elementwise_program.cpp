#include "kernels/elementwise_program.h"

#include <cstring>

namespace lamina::kernels {
namespace {

uint64_t bits_of(DType type, double value) {
  uint64_t bits = 0;
  with_dtype(type, [&]<class T>() {
    const compute_t<T> element = element_of<T>(value);
    std::memcpy(&bits, &element, sizeof element);
  });
  return bits;
}

}  // namespace

bool pack(const ElementwiseCode& code, ElementwiseProgram& p) {
  using P = ElementwiseProgram;
  if (code.inputs.size() > P::kInputs || code.outputs.size() > P::kOutputs || code.constants.size() > P::kConstants ||
      code.instructions.size() > P::kInstructions)
    return false;
  p.inputs = int16_t(code.inputs.size()), p.outputs = int16_t(code.outputs.size());
  p.constants = int16_t(code.constants.size()), p.instructions = int16_t(code.instructions.size());
  for (size_t i = 0; i < code.inputs.size(); ++i) p.input_types[i] = code.inputs[i];
  for (size_t i = 0; i < code.constants.size(); ++i) p.constant_bits[i] = bits_of(code.constants[i].first, code.constants[i].second);
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const ElementwiseCode::Instruction& in = code.instructions[i];
    p.code[i] = {in.op, in.type, in.result, uint8_t(operands(in.op)), in.a, in.b, in.c};
  }
  for (size_t o = 0; o < code.outputs.size(); ++o) {
    p.output_registers[o] = code.outputs[o];
    p.output_types[o] = code.register_type(code.outputs[o]);
  }
  return true;
}

namespace cuda {
bool fits(const ElementwiseCode& code) {
  ElementwiseProgram program;
  return pack(code, program);
}
}  // namespace cuda

}  // namespace lamina::kernels
