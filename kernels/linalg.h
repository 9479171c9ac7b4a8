// Factors and solutions of matrices, which are the last two axes of contiguous tensors; the leading axes are equal. T is float, double,
// or a complex of one: then symmetric means Hermitian, and orthogonal unitary.
// By LAPACK (kernels/cpu/lapack.h), one matrix after the other on one thread. Throws device where there is no LAPACK; invalid_argument,
// with the matrix's number, for a matrix that is singular, not positive definite, or not finite where an iteration would not end.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// a [n, n], of which the lower triangle is read -> lower l with l l^T = a.
template <class T>
void cholesky(Stream&, const View& a, const View& l);
// op(a) x = b, where op transposes or not, and a [n, n] is a lower or upper triangle; the other one is not read. unit: its diagonal counts
// as 1 and is not read.
template <class T>
void triangular_solve(Stream&, const View& a, const View& b, const View& x, bool lower, bool transpose, bool unit);
// a x = b; a [n, n], b [n, k].
template <class T>
void solve(Stream&, const View& a, const View& b, const View& x);
// a [n, n] -> the determinant's sign (0 when singular) and the log of its size.
template <class T>
void slogdet(Stream&, const View& a, const View& sign, const View& log);
// a [m, n] -> q [m, k], r [k, n] with k = min(m, n), or m when q is complete.
template <class T>
void qr(Stream&, const View& a, const View& q, const View& r);
// Symmetric a [n, n], of which the lower triangle is read -> ascending w [n], columns v [n, n].
template <class T>
void eigh(Stream&, const View& a, const View& w, const View& v);
// a [m, n] -> u [m, k], descending s, vt [k, n] with k = min(m, n), or u [m, m] and vt [n, n].
template <class T>
void svd(Stream&, const View& a, const View& u, const View& s, const View& vt);

}  // namespace lamina::kernels::cpu
