// Elementwise programs: a short list of scalar operations applied to every element. One op is a program with one instruction; a fused group
// is a longer one. Registers are numbered: inputs, then constants, then one per instruction.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/shared/scalar_op.h"
#include "runtime/device/kernel.h"

namespace lamina::kernels {

struct ElementwiseCode {
  struct Instruction {
    ScalarOp op;
    DType type;               // of its operands (compute type); of a cast: the source
    DType result;             // of its result
    int16_t a, b = 0, c = 0;  // registers, as many as the op takes
  };
  std::vector<DType> inputs;
  std::vector<std::pair<DType, double>> constants;
  std::vector<Instruction> instructions;
  std::vector<int16_t> outputs;  // registers
  DType register_type(int r) const;
};
LAMINA_API std::string print(const ElementwiseCode& code);

namespace cpu {
// out[i][index] = code(in...[index]) over the broadcast of all inputs. Views may be strided; outputs have the full shape. An output may be
// the same memory as an input of the same shape.
LAMINA_API void elementwise(Stream&, std::span<const View* const> in, std::span<const View* const> out, const ElementwiseCode& code);
// The same for elements begin to end of matrices with n columns, in row order. Pointers are to row 0; outputs are contiguous.
struct MatrixSteps {
  uint8_t row, column;  // whether the input has another element in the next row, in the next column; neither: it is one number
};
LAMINA_API void elementwise_matrix(const ElementwiseCode& code, const void* const* in, const MatrixSteps* steps, void* const* out,
                                   int64_t n, int64_t begin, int64_t end);
}  // namespace cpu

namespace cuda {
// Whether a program is short enough for the GPU's kernel; longer ones run node by node.
LAMINA_API bool fits(const ElementwiseCode& code);
// The same bits as cpu::elementwise, except for functions of doubles from the C library.
void elementwise(Stream&, std::span<const View* const> in, std::span<const View* const> out, const ElementwiseCode& code);
}  // namespace cuda

}  // namespace lamina::kernels
