// Linear algebra: of matrices in the last two axes, float32 or float64; leading axes are many of them. Each is an op (kernels/linalg.h).
#pragma once
#include <utility>

#include "graph/functions/op_functions.h"

namespace lamina::linalg {

LAMINA_API Tensor cholesky(const Operand& a);
// a x = b. The leading axes broadcast; a vector b gives a vector.
LAMINA_API Tensor solve(const Operand& a, const Operand& b);
LAMINA_API Tensor triangular_solve(const Operand& a, const Operand& b, bool lower = true, bool transpose = false,
                                   bool unit_diagonal = false);
// The determinant's sign, 0 of a singular matrix, and the log of its size.
LAMINA_API std::pair<Tensor, Tensor> slogdet(const Operand& a);
// Ascending eigenvalues, and eigenvectors as columns, of a symmetric matrix, of which the lower triangle is read.
LAMINA_API std::pair<Tensor, Tensor> eigh(const Operand& a);
LAMINA_API std::pair<Tensor, Tensor> qr(const Operand& a, bool complete = false);
struct Svd {
  Tensor u, s, vt;  // u diag(s) vt = a; s in descending order
};
LAMINA_API Svd svd(const Operand& a, bool full_matrices = false);

// The discrete Fourier transform along the last axis but one of pairs of real and imaginary part (kernels/fft.h).
LAMINA_API Tensor fft(const Operand& pairs, bool inverse = false);

}  // namespace lamina::linalg
