#include "graph/nn/dataset.h"

#include <gtest/gtest.h>

#include "graph/frontend/factories.h"
#include "graph/functions/random.h"
#include "tests/graph/nn/near.h"

namespace lamina::data {
namespace {

Dataset numbered(int64_t n) {
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t i = 0; i < n; ++i) {
    x.insert(x.end(), {float(i), float(i) + 0.5f});
    y.push_back(int32_t(i));
  }
  return Dataset::from_tensor_slices({tensor(x, {n, 2}), tensor(y)});
}
std::vector<int> labels(const Dataset& feed) {
  std::vector<int> out;
  for (auto& element : feed) {
    const std::vector<float> x = element[0].to_vector<float>();
    const std::vector<int> y = element[1].to_vector<int>();
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(x[2 * i + 1], float(y[i]) + 0.5f);  // rows stay together
    out.insert(out.end(), y.begin(), y.end());
  }
  return out;
}

TEST(Dataset, HandsOutSlicesAndBatchesPassAfterPass) {
  const Dataset feed = numbered(7);
  EXPECT_EQ(*feed.size(), 7);
  EXPECT_EQ(text((*feed.begin())[0].type()), "f32[2]");
  const Dataset batches = feed.batch(3);
  EXPECT_EQ(*batches.size(), 3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::string> types;
    for (auto& element : batches) types.push_back(text(element[0].type()));
    EXPECT_EQ(types, (std::vector<std::string>{"f32[3,2]", "f32[3,2]", "f32[1,2]"}));
    EXPECT_EQ(labels(batches), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  }
  EXPECT_EQ(labels(feed.batch(3, true)).size(), 6u);
}

TEST(Dataset, ShufflesAnewEachEpochAndFromTheSeed) {
  const Dataset a = numbered(40).shuffle(40, 5).batch(8), b = numbered(40).shuffle(40, 5).batch(8);
  const auto first = labels(a), second = labels(a);
  EXPECT_NE(first, second);
  EXPECT_EQ(labels(b), first);
  EXPECT_EQ(labels(b), second);
  random::set_seed(3);
  const auto unseeded = labels(numbered(40).shuffle(40)), next = labels(numbered(40).shuffle(40));
  EXPECT_NE(unseeded, next);
  random::set_seed(3);
  EXPECT_EQ(labels(numbered(40).shuffle(40)), unseeded);
}

TEST(Dataset, ShufflesBatchesWhenTheyComeFirst) {
  const auto order = labels(numbered(40).batch(4).shuffle(10, 1));
  EXPECT_EQ(order.size(), 40u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  for (size_t i = 0; i < 40; i += 4) EXPECT_EQ(order[i + 3], order[i] + 3);
}

TEST(Dataset, AnElementOutlivesItsDataset) {
  std::vector<Tensor> kept;
  {
    for (auto& element : numbered(3).repeat(2).batch(2)) kept.push_back(element[1]);
  }
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[1].to_vector<int>(), (std::vector<int>{2, 0}));
}

TEST(Dataset, RefusesTensorsThatDoNotFit) {
  EXPECT_EQ(test::error_of([] { Dataset::from_tensor_slices({}); }), "invalid argument: Dataset: there is nothing to slice");
  EXPECT_EQ(test::error_of([] { Dataset::from_tensor_slices({ones({3}), ones({2})}); }),
            "invalid argument: Dataset: cannot slice component 1, which is f32[2]");
  EXPECT_EQ(test::error_of([] { Dataset::from_tensor_slices({scalar(1)}); }),
            "invalid argument: Dataset: cannot slice component 0, which is f32[]");
  EXPECT_EQ(test::error_of([] { numbered(3).batch(0); }), "invalid argument: Dataset: a batch of 0");
  EXPECT_TRUE(labels(Dataset::from_tensor_slices({ones({0, 2}), zeros({0}, DType::i32)}).batch(4)).empty());
}

}  // namespace
}  // namespace lamina::data
