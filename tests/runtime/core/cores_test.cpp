#include "runtime/core/cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace lamina {
namespace {

class Quota : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::optional<double> quota(const std::string& groups) { return quota_of(groups, root_); }
  std::filesystem::path root_;
};

TEST_F(Quota, IsTheSmallestOfAGroupAndItsParents) {
  write("a/b/cpu.max", "400000 100000\n");
  write("a/cpu.max", "150000 100000\n");
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1.5);
  EXPECT_EQ(quota("0::/\n"), std::nullopt);
  EXPECT_EQ(quota("0::/elsewhere/of/the/host\n"), std::nullopt);
}

TEST_F(Quota, OfAContainerLiesAtTheRoot) {
  write("cpu.max", "50000 100000\n");
  EXPECT_EQ(quota("0::/\n"), 0.5);
}

TEST_F(Quota, OfVersionOneIsFoundByItsController) {
  write("cpu,cpuacct/x/cpu.cfs_quota_us", "200000\n");
  write("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/y/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("5:memory:/x\n4:cpu,cpuacct:/x\n"), 2.0);
  EXPECT_EQ(quota("4:cpu,cpuacct:/y\n"), std::nullopt) << "-1 is no limit";
}

TEST_F(Quota, InvalidTextMeansNoLimit) {
  write("cpu.max", "not a number");
  for (const char* groups : {"", "\n", "nonsense", "0::", "::::", "0::/\n"}) EXPECT_EQ(quota(groups), std::nullopt) << groups;
}

TEST(CoresTest, UsableIsAtLeastOneAndAtMostTheQuota) {
  EXPECT_EQ((Cores{8, std::nullopt}).usable(), 8);
  EXPECT_EQ((Cores{8, 0.5}).usable(), 1);
  EXPECT_EQ((Cores{8, 2.9}).usable(), 2);
  EXPECT_EQ((Cores{2, 16.0}).usable(), 2);
  EXPECT_GE(cores().usable(), 1);
}

}  // namespace
}  // namespace lamina
