// The fixed tree: ranges of ranks, their roots, and the order of additions.
#include "runtime/dist/tree.h"

#include <gtest/gtest.h>

#include <functional>

#include "kernels/tree_sum.h"
#include "runtime/core/error.h"

namespace lamina::distributed {
namespace {

TEST(SumTree, PartsAreContiguousAndEven) {
  for (int64_t total : {0, 1, 7, 8, 100})
    for (int64_t parts = 1; parts <= 12; ++parts) {
      int64_t at = 0, least = total, most = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range r = part_of(total, parts, i);
        EXPECT_EQ(r.begin, at);
        at = r.end, least = std::min(least, r.size()), most = std::max(most, r.size());
      }
      EXPECT_EQ(at, total);
      EXPECT_LE(most - least, 1);
    }
}

TEST(SumTree, RootsOfThreeRanksOfEightShards) {
  EXPECT_EQ(roots_of({0, 3}, 8), (std::vector<Range>{{0, 2}, {2, 3}}));
  EXPECT_EQ(roots_of({3, 6}, 8), (std::vector<Range>{{3, 4}, {4, 6}}));
  EXPECT_EQ(roots_of({6, 8}, 8), (std::vector<Range>{{6, 8}}));
  EXPECT_EQ(roots_of({4, 6}, 6), (std::vector<Range>{{4, 6}}));
  EXPECT_EQ(roots_of({0, 6}, 6), (std::vector<Range>{{0, 6}}));
}

// The expression that joins describe, with leaves as letters.
std::string expression(std::span<const Range> nodes, const std::vector<uint8_t>& joins, const std::function<std::string(Range)>& text) {
  std::vector<std::string> stack;
  for (size_t i = 0; i < nodes.size(); ++i) {
    stack.push_back(text(nodes[i]));
    for (int j = joins[i]; j > 0; --j) {
      const std::string upper = stack.back();
      stack.pop_back();
      stack.back() = "(" + stack.back() + upper + ")";
    }
  }
  return stack.size() == 1 ? stack[0] : "no tree";
}

std::string leaves_text(Range r, int64_t shards) {
  std::vector<Range> parts;
  for (int64_t i = r.begin; i < r.end; ++i) parts.push_back({i, i + 1});
  return expression(parts, joins_of(parts, shards), [](Range leaf) { return std::string(1, char('a' + leaf.begin)); });
}

TEST(SumTree, IsTheSameForEveryNumberOfRanks) {
  EXPECT_EQ(leaves_text({0, 8}, 8), "(((ab)(cd))((ef)(gh)))");
  EXPECT_EQ(leaves_text({0, 5}, 5), "(((ab)(cd))e)");
  for (int64_t shards = 1; shards <= 26; ++shards)
    for (int64_t ranks = 1; ranks <= shards; ++ranks) {
      std::vector<Range> all;
      for (int64_t r = 0; r < ranks; ++r)
        for (const Range root : roots_of(part_of(shards, ranks, r), shards)) all.push_back(root);
      EXPECT_EQ(expression(all, joins_of(all, shards), [&](Range r) { return leaves_text(r, shards); }), leaves_text({0, shards}, shards))
          << shards << " shards, " << ranks << " ranks";
    }
}

TEST(TreeSum, RefusesJoinsThatAreNoTree) {
  const float x[2] = {1, 2};
  float y[2];
  const void* arrays[] = {x, x};
  const uint8_t none[] = {0, 0}, early[] = {1, 0};
  EXPECT_THROW(cpu::tree_sum({.count = 2, .joins = none}, arrays, y), Error);
  EXPECT_THROW(cpu::tree_sum({.count = 2, .joins = early}, arrays, y), Error);
}

TEST(TreeSum, HalvesAreRoundedOnce) {
  const f16 big(2048.0f), one(1.0f);  // 2048 + 1 is no f16
  const void* arrays[] = {&big, &one, &one};
  const uint8_t joins[] = {0, 1, 1};
  f16 sum;
  cpu::tree_sum({.from = DType::f16, .to = DType::f16, .count = 1, .joins = joins}, arrays, &sum);
  EXPECT_EQ(float(sum), 2050.0f);
}

}  // namespace
}  // namespace lamina::distributed
