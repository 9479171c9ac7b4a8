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

TEST(CardCases, AWrongResultIsFound) {
  const ir::OpDef& add = ir::find_op("add");
  OpCase wrong = cases_of_ops().at("add")()[0];
  const Reference right = wrong.reference;
  wrong.reference = [right](const std::vector<Tensor>& in) {
    std::vector<std::vector<double>> out = right(in);
    out[0].back() *= 1.001;
    return out;
  };
  testing::TestPartResultArray found;
  {
    testing::ScopedFakeTestPartResultReporter here(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    check_on_card(EmulatedBackend::one(), add, wrong);
  }
  EXPECT_GT(found.size(), 0);
}

}  // namespace
}  // namespace lamina::tests
