// LAPACK, opened when a kernel first asks for it. Nothing links it: its functions are those of Fortran's, which every LAPACK has under the
// same names.
#pragma once
#include <complex>
#include <span>
#include <string>

#include "runtime/core/export.h"

namespace lamina::kernels::cpu {

using Int = int;        // LAPACK's, of its usual build with 32 bits
using Length = size_t;  // of a text, after all other arguments
using Text = const char*;

// The functions of one precision. Matrices lie column by column.
template <class T>
struct Lapack {
  void (*potrf)(Text uplo, const Int* n, T* a, const Int* lda, Int* info, Length);
  void (*trsm)(Text side, Text uplo, Text trans, Text diag, const Int* m, const Int* n, const T* alpha, const T* a, const Int* lda, T* b,
               const Int* ldb, Length, Length, Length, Length);
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*getrs)(Text trans, const Int* n, const Int* columns, const T* a, const Int* lda, const Int* pivots, T* b, const Int* ldb,
                Int* info, Length);
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* room, Int* info);
  void (*orgqr)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work, const Int* room, Int* info);
  void (*syevd)(Text job, Text uplo, const Int* n, T* a, const Int* lda, T* w, T* work, const Int* room, Int* iwork, const Int* iroom,
                Int* info, Length, Length);
  void (*gesdd)(Text job, const Int* m, const Int* n, T* a, const Int* lda, T* s, T* u, const Int* ldu, T* vt, const Int* ldvt, T* work,
                const Int* room, Int* iwork, Int* info, Length);
};

template <class R>
struct Lapack<std::complex<R>> {
  using T = std::complex<R>;
  void (*potrf)(Text uplo, const Int* n, T* a, const Int* lda, Int* info, Length);
  void (*trsm)(Text side, Text uplo, Text trans, Text diag, const Int* m, const Int* n, const T* alpha, const T* a, const Int* lda, T* b,
               const Int* ldb, Length, Length, Length, Length);
  void (*getrf)(const Int* m, const Int* n, T* a, const Int* lda, Int* pivots, Int* info);
  void (*getrs)(Text trans, const Int* n, const Int* columns, const T* a, const Int* lda, const Int* pivots, T* b, const Int* ldb,
                Int* info, Length);
  void (*geqrf)(const Int* m, const Int* n, T* a, const Int* lda, T* tau, T* work, const Int* room, Int* info);
  void (*orgqr)(const Int* m, const Int* n, const Int* k, T* a, const Int* lda, const T* tau, T* work, const Int* room, Int* info);
  void (*syevd)(Text job, Text uplo, const Int* n, T* a, const Int* lda, R* w, T* work, const Int* room, R* rwork, const Int* rroom,
                Int* iwork, const Int* iroom, Int* info, Length, Length);
  void (*gesdd)(Text job, const Int* m, const Int* n, T* a, const Int* lda, R* s, T* u, const Int* ldu, T* vt, const Int* ldvt, T* work,
                const Int* room, R* rwork, Int* iwork, Int* info, Length);
};

struct LapackLibrary {
  Lapack<float> f32{};
  Lapack<double> f64{};
  Lapack<std::complex<float>> c64{};
  Lapack<std::complex<double>> c128{};
  std::string path, why;  // the file; "" where there is none, and why
};

// Opens the first of these libraries that there is.
LAMINA_API LapackLibrary open_lapack(std::span<const char* const> names);
LAMINA_API const LapackLibrary& lapack_library();  // the system's, opened at the first call
// Throws device where there is none.
template <class T>
const Lapack<T>& lapack();

}  // namespace lamina::kernels::cpu
