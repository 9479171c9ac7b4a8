// The parts of section steps that run elementwise codes: on matrices, and on gradients that are never stored.
#pragma once
#include "kernels/cpu/dense.h"
#include "kernels/elementwise.h"

namespace lamina::kernels::cpu {

inline constexpr int kMostOperands = 128;

struct CodeOperand {  // not initialised: steps have arrays of them
  char* data;
  section::Broadcast broadcast;
};

// Every operand is [r,n] or one number: the matrix may be taken as one long row.
bool is_flat(const CodeOperand* in, int count);

// code on rows x columns of matrices that are n wide. Operands point to row 0.
void run_code(const ElementwiseCode& code, const CodeOperand* in, const CodeOperand* out, Range rows, Range columns, int64_t n);

struct UpdateOperands {
  const float *x, *dz;
  int64_t rows, k, n;
};

// code on (dw, extras...) for these rows of dw = x^T dz. `w - rate * dw` stays in registers; anything else is run strip by strip in the
// first cache, so that dw is not written to memory.
void update_weights(const Tiles& tiles, const UpdateOperands& u, const ElementwiseCode& code, const CodeOperand* extras,
                    const CodeOperand* out, Range weight_rows);
// code on (db, extras...) for db = the sum of dz's rows.
void update_bias(const Tiles& tiles, const UpdateOperands& u, const ElementwiseCode& code, const CodeOperand* extras,
                 const CodeOperand* out);

}  // namespace lamina::kernels::cpu
