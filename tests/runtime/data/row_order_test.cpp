#include "runtime/data/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/core/error.h"

namespace lamina::data {
namespace {

RowOrderRef shuffle_rows(RowOrderRef order, int64_t window, uint64_t seed) {
  return std::make_shared<Shuffled<Rows>>(std::move(order), window, seed);
}
RowOrderRef repeat_rows(RowOrderRef order, std::optional<int64_t> times) {
  return std::make_shared<Repeated<Rows>>(std::move(order), times);
}
std::vector<Rows> walk(const RowOrderRef& order) {
  std::vector<Rows> out;
  auto pass = order->start();
  for (Rows rows; pass->next(rows);) out.push_back(rows);
  return out;
}
std::vector<int64_t> flat(const RowOrderRef& order) {
  std::vector<int64_t> out;
  for (auto& element : walk(order)) out.insert(out.end(), element.rows.begin(), element.rows.end());
  return out;
}
std::vector<int64_t> counted(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(RowOrder, BatchesStackRowsAndKeepOrDropTheRest) {
  const auto kept = walk(batch_rows(all_rows(7), 3, false)), dropped = walk(batch_rows(all_rows(7), 3, true));
  ASSERT_EQ(kept.size(), 3u);
  ASSERT_EQ(dropped.size(), 2u);
  EXPECT_EQ(kept[1].rows, (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(kept[1].stack, std::vector<int64_t>{3});
  EXPECT_EQ(kept[2].stack, std::vector<int64_t>{1});
  for (bool drop : {false, true}) {
    for (int64_t n : {0, 1, 6, 7}) {
      const auto order = batch_rows(all_rows(n), 3, drop);
      EXPECT_EQ(*order->size(), int64_t(walk(order).size())) << n << drop;
    }
  }
}

TEST(RowOrder, BatchesOfBatchesNestOrRefuseARaggedOne) {
  const auto nested = walk(batch_rows(batch_rows(all_rows(8), 2, true), 3, false));
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(nested[0].stack, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(nested[1].rows, (std::vector<int64_t>{6, 7}));
  EXPECT_THROW(walk(batch_rows(batch_rows(all_rows(7), 2, false), 4, false)), Error);
}

TEST(RowOrder, EveryPassIsShuffledAnewAndFollowsFromTheSeed) {
  const auto a = shuffle_rows(all_rows(200), 200, 7), b = shuffle_rows(all_rows(200), 200, 7), c = shuffle_rows(all_rows(200), 200, 8);
  const auto first = flat(a), second = flat(a);
  EXPECT_NE(first, second);
  EXPECT_EQ(flat(b), first);
  EXPECT_EQ(flat(b), second);
  EXPECT_NE(flat(c), first);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, counted(200));
}

TEST(RowOrder, ASmallWindowOnlyLooksThatFarAhead) {
  const auto rows = flat(shuffle_rows(all_rows(500), 10, 1));
  ASSERT_EQ(rows.size(), 500u);
  int moved = 0;
  for (int64_t i = 0; i < 500; ++i) {
    EXPECT_LT(rows[size_t(i)], i + 10);
    moved += rows[size_t(i)] != i;
  }
  EXPECT_GT(moved, 300);
  EXPECT_EQ(flat(shuffle_rows(all_rows(50), 1, 1)), counted(50));
}

// 24 orders of 4 rows in 6,000 passes: each about 250 times; 5 standard deviations are 77.
TEST(RowOrder, AFullWindowGivesEveryOrderTheSameChance) {
  const auto order = shuffle_rows(all_rows(4), 4, 3);
  std::map<std::vector<int64_t>, int> seen;
  for (int i = 0; i < 6000; ++i) ++seen[flat(order)];
  EXPECT_EQ(seen.size(), 24u);
  for (auto& [rows, times] : seen) EXPECT_NEAR(times, 250, 77);
}

TEST(RowOrder, RepeatsAndShufflesEachRepetition) {
  const auto twice = repeat_rows(shuffle_rows(all_rows(50), 50, 2), 2);
  const auto rows = flat(twice);
  ASSERT_EQ(rows.size(), 100u);
  EXPECT_EQ(*twice->size(), 100);
  EXPECT_NE(std::vector<int64_t>(rows.begin(), rows.begin() + 50), std::vector<int64_t>(rows.begin() + 50, rows.end()));
  EXPECT_TRUE(flat(repeat_rows(all_rows(3), 0)).empty());
  EXPECT_TRUE(flat(repeat_rows(all_rows(0), std::nullopt)).empty());  // ends although it repeats for ever
  const auto endless = repeat_rows(all_rows(3), std::nullopt);
  EXPECT_FALSE(endless->size());
  auto pass = endless->start();
  Rows row;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pass->next(row));
    EXPECT_EQ(row.rows[0], i % 3);
  }
}

TEST(RowOrder, BatchAcrossRepetitionsAndShuffledBatches) {
  EXPECT_EQ(walk(batch_rows(repeat_rows(all_rows(5), 2), 4, false)).size(), 3u);
  const auto order = shuffle_rows(batch_rows(all_rows(40), 4, false), 10, 1);
  std::vector<int64_t> starts;
  for (auto& one : walk(order)) {
    EXPECT_EQ(one.rows[3], one.rows[0] + 3);
    starts.push_back(one.rows[0]);
  }
  EXPECT_EQ(starts.size(), 10u);
  EXPECT_FALSE(std::is_sorted(starts.begin(), starts.end()));
}

TEST(RowOrder, RefusesInvalidSizes) {
  EXPECT_THROW(batch_rows(all_rows(3), 0, false), Error);
  EXPECT_THROW(shuffle_rows(all_rows(3), -1, 0), Error);
  EXPECT_THROW(repeat_rows(all_rows(3), -1), Error);
}

TEST(RowOrder, GathersRowsInOrder) {
  const int16_t source[] = {0, 1, 10, 11, 20, 21};
  int16_t out[6] = {};
  gather_rows(out, source, 4, {2, 0, 2});
  EXPECT_EQ(std::vector<int16_t>(out, out + 6), (std::vector<int16_t>{20, 21, 0, 1, 20, 21}));
}

}  // namespace
}  // namespace lamina::data
