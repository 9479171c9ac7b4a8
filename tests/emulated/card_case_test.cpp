// The checks of perf/gpu/run.sh on a card's kernels, run on the emulation: all ops' cases against double precision.
#include "tests/ops/card_case.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/races.h"

namespace lamina::tests {
namespace {

TEST(CardCases, OpsAgreeWithDoublePrecision) {
  if (kernels::cuda::races_are_checked()) GTEST_SKIP() << "the same launches as in the tests of EmulatedOps, which run here";
  EXPECT_GT(check_all_on_card(EmulatedBackend::one(), std::getenv("LAMINA_TEST_LONG") ? 1 : 12), 50);
}

// Failures of the op's first case if its last expected element is multiplied by this.
int failures_if_off_by(const char* name, DType dtype, double factor) {
  OpCase c = cases_of_ops().at(name)()[0];
  c.dtypes = {dtype};
  c.reference = [factor, right = c.reference](const std::vector<Tensor>& in) {
    std::vector<std::vector<double>> out = right(in);
    out[0].back() *= factor;
    return out;
  };
  testing::TestPartResultArray found;
  {
    testing::ScopedFakeTestPartResultReporter here(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    check_on_card(EmulatedBackend::one(), ir::find_op(name), c);
  }
  return found.size();
}

TEST(CardCases, AWrongResultIsFound) { EXPECT_GT(failures_if_off_by("add", DType::f32, 1.001), 0); }

TEST(CardCases, FunctionsOfDoublesMayHaveTheErrorThatNvidiaDocuments) {
  const auto off = [](double ulps) { return 1 + ulps * epsilon(DType::f64); };
  EXPECT_EQ(failures_if_off_by("asinh", DType::f64, off(3)), 0);
  EXPECT_GT(failures_if_off_by("asinh", DType::f64, off(6)), 0);
  EXPECT_GT(failures_if_off_by("sqrt", DType::f64, off(3)), 0);
  EXPECT_GT(failures_if_off_by("asinh", DType::f32, 1 + 3 * epsilon(DType::f32)), 0);
}

}  // namespace
}  // namespace lamina::tests
