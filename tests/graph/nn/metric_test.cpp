#include "graph/nn/metric.h"

#include <gtest/gtest.h>

#include "graph/frontend/factories.h"
#include "graph/frontend/typed_function.h"
#include "tests/graph/nn/near.h"

namespace lamina::metrics {
namespace {

TEST(Accuracy, CountsTheLargestPrediction) {
  const Tensor scores = tensor({3, 1, 2, 0, 5, 1, 1, 2, 9, 4, 0, 4}, {4, 3});  // 0, 1, 2, and 0 of a tie
  EXPECT_EQ(matches(tensor(std::vector<int32_t>{0, 2, 2, 0}), scores).to_vector<float>(), (std::vector<float>{1, 0, 1, 1}));
  EXPECT_EQ(accuracy(tensor({0, 2, 2, 0}, {4, 1}), scores).item<float>(), 0.75f);
  EXPECT_EQ(accuracy(tensor({1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1}, {4, 3}), scores).item<float>(), 0.5f);
}

TEST(Accuracy, OfOneProbabilityUsesAThresholdOfAHalf) {
  EXPECT_EQ(accuracy(tensor({1, 0, 1, 0}, {4}), tensor({0.9, 0.4, 0.5, 0.6}, {4, 1})).item<float>(), 0.5f);
  EXPECT_EQ(accuracy(tensor({1, 0}, {2, 1}), tensor({0.9, 0.4}, {2})).item<float>(), 1.0f);
}

TEST(Accuracy, RefusesShapesThatDoNotFit) {
  EXPECT_EQ(test::error_of([] { accuracy(ones({2, 2, 2}), ones({2, 3})); }),
            "invalid argument: accuracy: y_true f32[2,2,2] does not fit y_pred f32[2,3]");
}

TEST(Mean, CountsEverySampleOnceAcrossBatches) {
  const Mean mean;
  EXPECT_EQ(mean.result().item<double>(), 0);
  auto update = function([&](Tensor x) { mean.update(x); });
  update(ones({32}));
  update(full({28}, 9));
  mean.update(2);
  EXPECT_NEAR(mean.result().item<double>(), (32 + 28 * 9 + 2) / 61.0, 1e-12);
  mean.reset();
  EXPECT_EQ(mean.result().item<double>(), 0);
}

}  // namespace
}  // namespace lamina::metrics
