// The functions of lm::linalg from C++; values and gradients are compared with NumPy's in tests/python/test_linalg.py.
#include "graph/functions/linalg.h"

#include <gtest/gtest.h>

#include "include/lamina/lamina.h"
#include "kernels/cpu/lapack.h"
#include "runtime/core/error.h"

namespace lamina {
namespace {

bool no_lapack() { return kernels::cpu::lapack_library().path.empty(); }

TEST(Linalg, SolvesFactorsAndDifferentiates) {
  if (no_lapack()) GTEST_SKIP() << "needs LAPACK: " << kernels::cpu::lapack_library().why;
  const Tensor a = tensor({4, 2, 2, 3}, {2, 2}), b = tensor({2, 1}, {2});
  EXPECT_NEAR(sum(abs(matmul(a, reshape(linalg::solve(a, b), {2, 1})) - reshape(b, {2, 1}))).item<float>(), 0, 1e-5);
  const Tensor l = linalg::cholesky(a);
  EXPECT_NEAR(sum(abs(matmul(l, l, false, true) - a)).item<float>(), 0, 1e-5);
  EXPECT_NEAR(linalg::slogdet(a).second.item<float>(), std::log(8.0), 1e-5);
  const auto [q, r] = linalg::qr(a);
  EXPECT_NEAR(sum(abs(matmul(q, r) - a)).item<float>(), 0, 1e-5);
  Variable v(a);
  GradientTape tape;
  const Tensor loss = linalg::slogdet(v).second;
  EXPECT_NEAR(sum(abs(matmul(tape.gradient(loss, v)[0], a) - tensor({1, 0, 0, 1}, {2, 2}))).item<float>(), 0, 1e-5);
}
TEST(Linalg, SingularMatrixIsNamed) {
  if (no_lapack()) GTEST_SKIP() << "needs LAPACK: " << kernels::cpu::lapack_library().why;
  try {
    linalg::solve(tensor({1, 0, 0, 1, 1, 1, 1, 1}, {2, 2, 2}), tensor({1, 1, 1, 1}, {2, 2, 1})).item<float>();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
    EXPECT_EQ(e.parts.what, "solve: matrix 1 of 2 is singular");
  }
}

}  // namespace
}  // namespace lamina
