// ElementwiseCode as plain data of a fixed size, passed to GPU kernels as an argument.
#pragma once
#include <cstdint>

#include "kernels/elementwise.h"

namespace lamina::kernels {

struct ElementwiseProgram {
  static constexpr int kInputs = 16, kOutputs = 8, kConstants = 24, kInstructions = 64;
  struct Instruction {
    ScalarOp op;
    DType type, result;
    uint8_t operands;
    int16_t a, b, c;
  };
  int16_t inputs = 0, constants = 0, instructions = 0, outputs = 0;
  DType input_types[kInputs] = {}, output_types[kOutputs] = {};
  int16_t output_registers[kOutputs] = {};
  Instruction code[kInstructions] = {};
  uint64_t constant_bits[kConstants] = {};  // in the constant's compute type, in the lowest bytes
};

// False when the code is too long; `program` is then incomplete.
LAMINA_API bool pack(const ElementwiseCode& code, ElementwiseProgram& program);

}  // namespace lamina::kernels
