#include "graph/compile/plan_memory.h"

#include <gtest/gtest.h>

#include <random>

namespace lamina::compile {
namespace {

void expect_no_overlap(const std::vector<Lifetime>& lives, int64_t size) {
  for (size_t i = 0; i < lives.size(); ++i) {
    EXPECT_EQ(lives[i].offset % kArenaAlignment, 0);
    EXPECT_LE(lives[i].offset + lives[i].bytes, size);
    for (size_t j = 0; j < i; ++j) {
      bool together = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
      bool overlap = lives[i].offset < lives[j].offset + lives[j].bytes && lives[j].offset < lives[i].offset + lives[i].bytes;
      ASSERT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(PlanMemory, GivesTwoBuffersToAChain) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 100; ++i) chain.push_back({1000, i, i + 1, -1});
  EXPECT_EQ(plan_memory(chain), 2 * 1024);
  expect_no_overlap(chain, 2 * 1024);
}

TEST(PlanMemory, NeverSharesBytesBetweenLivingStorages) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    int64_t alive_at_most = 0;
    for (int i = 0; i < 60; ++i) {
      int first = int(random() % 50);
      lives.push_back({int64_t(random() % 5000), first, first + int(random() % 20), -1});
    }
    for (int step = 0; step < 70; ++step) {
      int64_t alive = 0;
      for (auto& life : lives)
        if (life.first <= step && step <= life.last) alive += std::max<int64_t>(64, (life.bytes + 63) / 64 * 64);
      alive_at_most = std::max(alive_at_most, alive);
    }
    int64_t size = plan_memory(lives);
    expect_no_overlap(lives, size);
    EXPECT_GE(size, alive_at_most);
    EXPECT_LE(size, 2 * alive_at_most);  // fragmentation stays bounded
  }
}

}  // namespace
}  // namespace lamina::compile
