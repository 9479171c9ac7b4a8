// Section steps that run elementwise programs: on matrices, and on gradients that are never stored.
#pragma once
#include <optional>

#include "kernels/cpu/dense.h"
#include "kernels/elementwise.h"

namespace lamina::kernels::cpu {

inline constexpr int kMostOperands = 128;

struct CodeOperand {  // not initialised, since steps have arrays of them
  char* data;
  section::Broadcast broadcast;
};

// Whether every operand is [r,n] or one number, so that the matrix can be treated as one long row.
bool is_flat(const CodeOperand* in, int count);

// Runs the program on these elements, in row order, of matrices with n columns. Operands point to row 0.
void run_code(const ElementwiseCode& code, const CodeOperand* in, const CodeOperand* out, Range elements, int64_t n);

// The update w - rate * g.
struct Descent {
  int w;  // an extra
  float rate;
};
// Recognises it, with the factors in either order. Input 0 of the code is g; w and rate are extras, or rate is a constant.
std::optional<Descent> descent_of(const ElementwiseCode& code, const CodeOperand* extras);

struct UpdateOperands {
  const float *x, *dz;
  int64_t rows, k, n;
  int64_t leaves = 1;  // of the rows; the program takes the gradient of each
};

// Runs the program on (dw, extras...) for these rows of dw = x^T dz. `w - rate * dw` is computed in registers; other programs run strip by
// strip in the L1 cache, so that dw is not written to memory.
void update_weights(const Tiles& tiles, const UpdateOperands& u, const ElementwiseCode& code, const CodeOperand* extras,
                    const CodeOperand* out, Range weight_rows);
// Runs the program on (gradient, extras...) for these elements of matrices with n columns. gradient[0] is of the first of them.
void update_by(const Tiles& tiles, const float* gradient, const ElementwiseCode& code, const CodeOperand* extras, const CodeOperand* out,
               Range elements, int64_t n);
// Runs the program on (db, extras...) with db = the sum of dz's rows.
void update_bias(const Tiles& tiles, const UpdateOperands& u, const ElementwiseCode& code, const CodeOperand* extras,
                 const CodeOperand* out);

}  // namespace lamina::kernels::cpu
