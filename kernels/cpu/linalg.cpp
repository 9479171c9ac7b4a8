#include "kernels/linalg.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <complex>
#include <vector>

#include "kernels/cpu/lapack.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cpu {
namespace {

template <class T>
struct Part {
  using type = T;
};
template <class R>
struct Part<std::complex<R>> {
  using type = R;
};
template <class T>
using part_t = typename Part<T>::type;
template <class T>
constexpr bool is_complex_number = !std::is_same_v<T, part_t<T>>;

template <class T>
T conjugate(T x) {
  if constexpr (is_complex_number<T>)
    return std::conj(x);
  else
    return x;
}

// The matrices of a view [..., rows, columns].
struct Matrices {
  int64_t rows, columns, count;
  explicit Matrices(const View& v) : rows(v.shape[v.rank - 2]), columns(v.shape[v.rank - 1]), count(1) {
    for (int i = 0; i + 2 < v.rank; ++i) count *= v.shape[i];
  }
  int64_t size() const { return rows * columns; }
};

// A length as LAPACK takes it.
Int checked(const char* op, int64_t n, int64_t most = INT_MAX / 128) {
  if (n > most)
    throw Error(ErrorKind::invalid_argument, {.what = cat(op, ": a matrix has ", n, " rows or columns"),
                                              .where = "",
                                              .why = cat("LAPACK counts in 32 bits, which are enough for ", most),
                                              .fix = "cut it into smaller matrices"});
  return Int(n);
}
constexpr int64_t kMostSquare = 20000;  // where LAPACK works in a few times n^2 elements
// The room that LAPACK asks for, in a floating-point number that may have been rounded.
template <class T>
size_t asked(T room) {
  return size_t(double(std::real(room)) * 1.0001) + 1;
}
Int leading(Int n) { return std::max(n, 1); }

Error unfit(const char* op, int64_t number, int64_t count, const std::string& what, const std::string& why, const std::string& fix) {
  return Error(ErrorKind::invalid_argument,
               {.what = cat(op, ": ", count > 1 ? cat("matrix ", number, " of ", count) : std::string("the matrix"), " is ", what),
                .where = "",
                .why = why,
                .fix = fix});
}
Error singular(const char* op, int64_t number, int64_t count, const std::string& why) {
  return unfit(op, number, count, "singular", why, "add a small multiple of the identity to it, or use lm.linalg.pinv");
}

template <class T>
void require_finite(const char* op, const T* x, int64_t size, int64_t number, int64_t count) {
  if (!std::all_of(x, x + size, [](T v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); }))
    throw unfit(op, number, count, "not finite", "it holds NaN or infinity, for which the iteration does not end",
                "look for where they come from with lm.check_numerics");
}
Error no_convergence(const char* op, int64_t number, int64_t count) {
  return unfit(op, number, count, "out of reach", "LAPACK's iteration did not converge", "scale its elements to a smaller range");
}

// Row by row to column by column: x [rows, columns] -> y [columns, rows].
template <class T>
void transposed(const T* x, int64_t rows, int64_t columns, T* y) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
}
template <class T>
void identity(T* x, int64_t n) {
  std::fill_n(x, n * n, T(0));
  for (int64_t i = 0; i < n; ++i) x[i * (n + 1)] = T(1);
}

}  // namespace

// A matrix in rows is its transpose in columns: its lower triangle is the upper one there, and the factor comes out in its place.
template <class T>
void cholesky(Stream&, const View& a, const View& l) {
  const Matrices s(a);
  const Int n = checked("cholesky", s.rows), lda = leading(n);
  for (int64_t b = 0; b < s.count; ++b) {
    T* out = l.as<T>() + b * s.size();
    std::copy_n(a.as<const T>() + b * s.size(), s.size(), out);
    Int info = 0;
    lapack<T>().potrf("U", &n, out, &lda, &info, 1);
    if (info)
      throw unfit("cholesky", b, s.count, "not positive definite",
                  cat("its leading minor of order ", info, " is not positive; only the lower triangle is read"),
                  "add a small multiple of the identity to it, or use lm.linalg.eigh");
    for (int64_t i = 0; i < s.rows; ++i) std::fill(out + i * s.columns + i + 1, out + (i + 1) * s.columns, T(0));
  }
}

// x^T op(a)^T = b^T in columns.
template <class T>
void triangular_solve(Stream&, const View& a, const View& b, const View& x, bool lower, bool transpose, bool unit) {
  const Matrices s(a), of_b(b);
  const Int n = checked("triangular_solve", s.rows), columns = checked("triangular_solve", of_b.columns), lda = leading(n),
            ldb = leading(columns);
  const T one = 1;
  for (int64_t m = 0; m < s.count; ++m) {
    const T* from = a.as<const T>() + m * s.size();
    for (int64_t i = 0; !unit && i < s.rows; ++i)
      if (from[i * (s.columns + 1)] == T(0)) throw singular("triangular_solve", m, s.count, cat("element ", i, " of its diagonal is 0"));
    T* out = x.as<T>() + m * of_b.size();
    std::copy_n(b.as<const T>() + m * of_b.size(), of_b.size(), out);
    lapack<T>().trsm("R", lower ? "U" : "L", transpose ? "T" : "N", unit ? "U" : "N", &columns, &n, &one, from, &lda, out, &ldb, 1, 1, 1,
                     1);
  }
}

// p l u = a^T in columns, of one matrix after the other.
template <class T>
struct LuFactors {
  explicit LuFactors(const char* op, const Matrices& s)
      : size(s.size()), n(checked(op, s.rows)), lda(leading(n)), values(size_t(s.size())), pivots(size_t(s.rows)) {}
  Int factor(const T* a) {  // the number of the first pivot that is 0, counted from 1, or 0
    std::copy_n(a, size, values.data());
    Int info = 0;
    lapack<T>().getrf(&n, &n, values.data(), &lda, pivots.data(), &info);
    return info;
  }
  int64_t size;
  Int n, lda;
  std::vector<T> values;
  std::vector<Int> pivots;
};

template <class T>
void solve(Stream&, const View& a, const View& b, const View& x) {
  const Matrices s(a), of_b(b);
  LuFactors<T> lu("solve", s);
  const Int columns = checked("solve", of_b.columns);
  std::vector<T> right(size_t(of_b.size()));
  for (int64_t m = 0; m < s.count; ++m) {
    Int info = lu.factor(a.as<const T>() + m * s.size());
    if (info) throw singular("solve", m, s.count, cat("pivot ", info - 1, " of its LU factors is 0"));
    transposed(b.as<const T>() + m * of_b.size(), of_b.rows, of_b.columns, right.data());
    lapack<T>().getrs("T", &lu.n, &columns, lu.values.data(), &lu.lda, lu.pivots.data(), right.data(), &lu.lda, &info, 1);
    transposed(right.data(), of_b.columns, of_b.rows, x.as<T>() + m * of_b.size());
  }
}

template <class T>
void slogdet(Stream&, const View& a, const View& sign, const View& log) {
  const Matrices s(a);
  LuFactors<T> lu("slogdet", s);
  for (int64_t m = 0; m < s.count; ++m) {
    lu.factor(a.as<const T>() + m * s.size());
    T signs = 1;
    part_t<T> logs = 0;
    for (int64_t i = 0; i < s.rows; ++i) {
      const T pivot = lu.values[size_t(i * (s.columns + 1))];
      if constexpr (is_complex_number<T>) {
        const T turned = pivot == T(0) ? T(0) : signs * (pivot / std::abs(pivot));
        signs = lu.pivots[size_t(i)] != i + 1 ? -turned : turned;
      } else {
        signs = pivot == 0 || signs == 0 ? T(0) : (std::signbit(pivot) != (lu.pivots[size_t(i)] != i + 1)) ? -signs : signs;
      }
      logs += std::log(std::abs(pivot));
    }
    sign.as<T>()[m] = std::isnan(logs) && signs != T(0) ? T(logs) : signs,
    log.as<part_t<T>>()[m] = signs == T(0) ? -std::numeric_limits<part_t<T>>::infinity() : logs;
  }
}

template <class T>
void qr(Stream&, const View& a, const View& q, const View& r) {
  const Matrices s(a), of_q(q), of_r(r);
  const Int m = checked("qr", s.rows), n = checked("qr", s.columns), k = std::min(m, n), width = Int(of_q.columns), lda = leading(m),
            room = 64 * leading(std::max(n, width));
  std::vector<T> columns(size_t(s.rows * std::max(s.columns, of_q.columns))), tau(size_t(leading(k))), work(static_cast<size_t>(room));
  for (int64_t b = 0; b < s.count; ++b) {
    transposed(a.as<const T>() + b * s.size(), s.rows, s.columns, columns.data());
    Int info = 0;
    T* to = r.as<T>() + b * of_r.size();
    if (k) lapack<T>().geqrf(&m, &n, columns.data(), &lda, tau.data(), work.data(), &room, &info);
    for (int64_t i = 0; i < of_r.rows; ++i)
      for (int64_t j = 0; j < of_r.columns; ++j) to[i * of_r.columns + j] = j >= i ? columns[size_t(j * s.rows + i)] : T(0);
    if (k)
      lapack<T>().orgqr(&m, &width, &k, columns.data(), &lda, tau.data(), work.data(), &room, &info);
    else
      identity(columns.data(), of_q.columns);
    transposed(columns.data(), of_q.columns, of_q.rows, q.as<T>() + b * of_q.size());
  }
}

template <class T>
void eigh(Stream&, const View& a, const View& w, const View& v) {
  const Matrices s(a);
  const Int n = checked("eigh", s.rows, kMostSquare), lda = leading(n);
  std::vector<T> columns(size_t(s.size())), work(1);
  std::vector<part_t<T>> rwork(1);
  std::vector<Int> iwork(1);
  const auto factor = [&](part_t<T>* values, Int room, Int rroom, Int iroom) {
    Int info = 0;
    if constexpr (is_complex_number<T>)
      lapack<T>().syevd("V", "U", &n, columns.data(), &lda, values, work.data(), &room, rwork.data(), &rroom, iwork.data(), &iroom, &info,
                        1, 1);
    else
      lapack<T>().syevd("V", "U", &n, columns.data(), &lda, values, work.data(), &room, iwork.data(), &iroom, &info, 1, 1);
    return info;
  };
  for (int64_t b = 0; b < s.count && n; ++b) {
    std::copy_n(a.as<const T>() + b * s.size(), s.size(), columns.data());
    for (int64_t i = 0; i < s.rows; ++i) require_finite("eigh", columns.data() + i * s.columns, i + 1, b, s.count);
    part_t<T>* values = w.as<part_t<T>>() + b * s.rows;
    if (b == 0) {  // asks how much room it needs
      factor(values, -1, -1, -1);
      work.resize(asked(work[0])), rwork.resize(asked(rwork[0])), iwork.resize(size_t(iwork[0]));
    }
    if (factor(values, Int(work.size()), Int(rwork.size()), Int(iwork.size()))) throw no_convergence("eigh", b, s.count);
    T* vectors = v.as<T>() + b * s.size();
    transposed(columns.data(), s.rows, s.columns, vectors);
    for (int64_t i = 0; is_complex_number<T> && i < s.size(); ++i) vectors[i] = conjugate(vectors[i]);  // those of a^T
  }
}

// In columns the matrix is a^T = v s u^T: what LAPACK calls u is vt in rows, and the other way round.
template <class T>
void svd(Stream&, const View& a, const View& u, const View& s, const View& vt) {
  const Matrices of_a(a), of_u(u), of_vt(vt);
  const Int m = checked("svd", of_a.columns), n = checked("svd", of_a.rows), k = std::min(m, n), lda = leading(m),
            ldv = leading(Int(of_u.columns));
  checked("svd", k, kMostSquare);
  const bool full = of_u.columns > k || of_vt.rows > k;
  std::vector<T> copy(size_t(of_a.size())), work(1);
  std::vector<Int> iwork(size_t(8 * leading(k)));
  std::vector<part_t<T>> rwork;
  if (is_complex_number<T>) {
    const size_t least = size_t(leading(k)), most = size_t(std::max(m, n));
    rwork.resize(least * std::max(5 * least + 7, 2 * most + 2 * least + 1) + 1);
  }
  const auto factor = [&](part_t<T>* values, T* right, T* left, Int room) {
    Int info = 0;
    if constexpr (is_complex_number<T>)
      lapack<T>().gesdd(full ? "A" : "S", &m, &n, copy.data(), &lda, values, right, &lda, left, &ldv, work.data(), &room, rwork.data(),
                        iwork.data(), &info, 1);
    else
      lapack<T>().gesdd(full ? "A" : "S", &m, &n, copy.data(), &lda, values, right, &lda, left, &ldv, work.data(), &room, iwork.data(),
                        &info, 1);
    return info;
  };
  for (int64_t b = 0; b < of_a.count; ++b) {
    T *left = u.as<T>() + b * of_u.size(), *right = vt.as<T>() + b * of_vt.size();
    if (!k) {
      identity(left, full ? of_u.rows : 0), identity(right, full ? of_vt.columns : 0);
      continue;
    }
    std::copy_n(a.as<const T>() + b * of_a.size(), of_a.size(), copy.data());
    require_finite("svd", copy.data(), of_a.size(), b, of_a.count);
    part_t<T>* values = s.as<part_t<T>>() + b * k;
    if (b == 0) {  // asks how much room it needs
      factor(values, right, left, -1);
      work.resize(asked(work[0]));
    }
    if (factor(values, right, left, Int(work.size()))) throw no_convergence("svd", b, of_a.count);
  }
}

#define LAMINA_LINALG(T)                                                                               \
  template void cholesky<T>(Stream&, const View&, const View&);                                        \
  template void triangular_solve<T>(Stream&, const View&, const View&, const View&, bool, bool, bool); \
  template void solve<T>(Stream&, const View&, const View&, const View&);                              \
  template void slogdet<T>(Stream&, const View&, const View&, const View&);                            \
  template void qr<T>(Stream&, const View&, const View&, const View&);                                 \
  template void eigh<T>(Stream&, const View&, const View&, const View&);                               \
  template void svd<T>(Stream&, const View&, const View&, const View&, const View&);
LAMINA_LINALG(float)
LAMINA_LINALG(double)
LAMINA_LINALG(std::complex<float>)
LAMINA_LINALG(std::complex<double>)
#undef LAMINA_LINALG

}  // namespace lamina::kernels::cpu
