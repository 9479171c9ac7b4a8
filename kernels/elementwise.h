// Elementwise programs: a short list of scalar operations applied to every element. One op is a program of one instruction;
// a fused group is a longer one. Registers are numbered: first the inputs, then the constants, then one per instruction.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/gpu_kernel.h"
#include "kernels/shared/scalar_op.h"
#include "runtime/device/kernel.h"

namespace lamina::kernels {

struct ElementwiseCode {
  struct Instruction {
    ScalarOp op;
    DType type;               // of its operands (compute type); a cast's source
    DType result;             // of its result
    int16_t a, b = 0, c = 0;  // registers; as many as the op takes
  };
  std::vector<DType> inputs;
  std::vector<std::pair<DType, double>> constants;
  std::vector<Instruction> instructions;
  std::vector<int16_t> outputs;  // registers
  DType register_type(int r) const;
};
LAMINA_API std::string print(const ElementwiseCode& code);

namespace cpu {
// out[i][index] = code(in...[index]) over the broadcast of all inputs. Views may be strided; outputs have the full shape.
// An output may be the same memory as an input of the same shape.
LAMINA_API void elementwise(Stream&, std::span<const View* const> in, std::span<const View* const> out, const ElementwiseCode& code);
// The same for n elements in a row: input i advances by one element where steps[i] is 1 and stays where it is 0.
LAMINA_API void elementwise_run(const ElementwiseCode& code, const void* const* in, const uint8_t* steps, void* const* out, int64_t n);
}  // namespace cpu

namespace cuda {
// Whether a program is short enough for the GPU's kernel; a longer one runs node by node.
LAMINA_API bool fits(const ElementwiseCode& code);
// The same bits as cpu::elementwise, but for the functions of doubles that come from the C library.
LAMINA_GPU_KERNEL void elementwise(Stream&, std::span<const View* const> in, std::span<const View* const> out, const ElementwiseCode& code);
}  // namespace cuda

}  // namespace lamina::kernels
