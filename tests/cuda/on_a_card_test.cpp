// What needs a card: the kernels of all ops, against double precision. perf/gpu/run.sh runs it; elsewhere it says why not.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/ops/card_case.h"

namespace lamina::tests {
namespace {

TEST(OnACard, TheKernelsOfAllOpsAgreeWithDoublePrecision) {
  Backend& backend = cuda_backend();
  if (backend.device_count() == 0) GTEST_SKIP() << backend.unavailable_reason();
  const int launches = check_all_on_card(backend);
  EXPECT_GT(launches, 500);
  std::printf("%d launches\n", launches);
}

}  // namespace
}  // namespace lamina::tests
