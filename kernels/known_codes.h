// Elementwise programs that are compiled as a whole, so that their values stay in registers: the updates of common optimizers.
// A program may differ from these only in the values of its constants.
#pragma once
#include <cstdint>
#include <iterator>

#include "kernels/shared/scalar_op.h"

namespace lamina::kernels {

// All values are float32, numbered as in ElementwiseCode: inputs, then constants, then results.
struct KnownCode {
  struct Instruction {
    ScalarOp op = ScalarOp::add;
    int8_t a = 0, b = 0;
  };
  const char* name;
  int inputs;
  unsigned numbers;  // bit i: input i is one number for all elements, as a learning rate is
  int constants, instructions, outputs;
  Instruction code[15];
  int8_t output[3];
};

namespace known {
using enum ScalarOp;
inline constexpr KnownCode kCodes[] = {
    // Inputs: the gradient, rate, velocity, w.
    {"momentum", 4, 0b0010, 1, 4, 2, {{mul, 0, 1}, {mul, 2, 4}, {sub, 6, 5}, {add, 3, 7}}, {7, 8}},
    {"Nesterov momentum", 4, 0b0010, 1, 6, 2, {{mul, 0, 1}, {mul, 2, 4}, {sub, 6, 5}, {mul, 7, 4}, {sub, 8, 5}, {add, 3, 9}}, {7, 10}},
    // clang-format off
    // The gradient, both moments, rate, w.
    {"Adam", 5, 0b01000, 3, 12, 3,
     {{sub, 0, 1}, {mul, 8, 5}, {add, 1, 9}, {square, 0}, {sub, 11, 2}, {mul, 12, 6}, {add, 2, 13}, {sqrt, 14}, {add, 15, 7}, {mul, 10, 3},
      {div, 17, 16}, {sub, 4, 18}},
     {10, 14, 19}},
    // The gradient, both moments, w, decay, rate.
    {"AdamW", 6, 0b110000, 3, 14, 3,
     {{sub, 0, 1}, {mul, 9, 6}, {add, 1, 10}, {square, 0}, {sub, 12, 2}, {mul, 13, 7}, {add, 2, 14}, {mul, 3, 4}, {sub, 3, 16}, {sqrt, 15},
      {add, 18, 8}, {mul, 11, 5}, {div, 20, 19}, {sub, 17, 21}},
     {11, 15, 22}},
    // The gradient, both moments, the gradient's rate, the moment's, the correction, w.
    {"Nadam", 7, 0b0111000, 3, 15, 3,
     {{sub, 0, 1}, {mul, 10, 7}, {add, 1, 11}, {square, 0}, {sub, 13, 2}, {mul, 14, 8}, {add, 2, 15}, {mul, 0, 3}, {mul, 12, 4},
      {add, 18, 17}, {sqrt, 16}, {mul, 20, 5}, {add, 21, 9}, {div, 19, 22}, {sub, 6, 23}},
     {12, 16, 24}},
    // The gradient, its mean square, rate, w.
    {"RMSprop", 4, 0b0100, 3, 9, 2,
     {{square, 0}, {mul, 7, 4}, {mul, 1, 5}, {add, 9, 8}, {add, 10, 6}, {sqrt, 11}, {mul, 0, 2}, {div, 13, 12}, {sub, 3, 14}}, {10, 15}},
    // The gradient, the sum of its squares, rate, w.
    {"Adagrad", 4, 0b0100, 1, 7, 2, {{square, 0}, {add, 1, 5}, {add, 6, 4}, {sqrt, 7}, {mul, 0, 2}, {div, 9, 8}, {sub, 3, 10}}, {6, 11}},
    // The gradient, the moment, rate, w.
    {"Lion", 4, 0b0100, 2, 8, 2,
     {{sub, 0, 1}, {mul, 6, 4}, {add, 1, 7}, {sign, 8}, {mul, 9, 2}, {mul, 6, 5}, {add, 1, 11}, {sub, 3, 10}}, {12, 13}},
    // clang-format on
};
}  // namespace known
inline constexpr int kKnownCodes = int(std::size(known::kCodes));

struct ElementwiseCode;
// Its number in known::kCodes, or -1.
int known_code(const ElementwiseCode& code);

}  // namespace lamina::kernels
