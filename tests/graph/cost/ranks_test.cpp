// Training steps on several ranks, as modelled: times against figures that NCCL's authors have published, and rules that hold for any of
// them.
#include "graph/cost/ranks.h"

#include <gtest/gtest.h>

#include "runtime/core/error.h"
#include "runtime/dist/threads.h"

namespace lamina {
namespace {

using namespace cost;

Ranks h100(int count, int hosts = 1) { return {parse_device("null:h100"), count, hosts}; }
// 100 layers of 64 x 64 with bias: 1.664 MB.
Step network(double microseconds) { return {microseconds, std::vector<double>(100, 16640)}; }

// For 16.6 kB on 2, 4 and 8 GPUs NCCL's model of its symmetric kernels has 5.1, 5.6 and 7.1 us; for 1.664 MB 11.7, 14.1 and 15.3.
TEST(RankCosts, OfSumsInTheLaunchAreNearThoseOfNcclsSymmetricKernels) {
  const struct {
    int ranks;
    double layer, all;
  } published[] = {{2, 5.1, 11.7}, {4, 5.6, 14.1}, {8, 7.1, 15.3}};
  for (const auto& row : published) {
    EXPECT_NEAR(sum_time(h100(row.ranks), Exchange::in_launch, 16640).microseconds, row.layer, 0.4 * row.layer);
    EXPECT_NEAR(sum_time(h100(row.ranks), Exchange::in_launch, 1.664e6).microseconds, row.all, 0.3 * row.all);
  }
}

TEST(RankCosts, GrowWithBytesRanksAndHosts) {
  for (const Exchange exchange : {Exchange::after, Exchange::in_launch})
    for (double bytes = 1000; bytes < 1e9; bytes *= 3) {
      EXPECT_LE(sum_time(h100(8), exchange, bytes).microseconds, sum_time(h100(8), exchange, bytes * 3).microseconds);
      EXPECT_LE(sum_time(h100(2), exchange, bytes).microseconds, sum_time(h100(8), exchange, bytes).microseconds);
    }
  EXPECT_LT(sum_time(h100(8), Exchange::after, 1e6).microseconds, sum_time(h100(16, 2), Exchange::after, 1e6).microseconds);
  EXPECT_EQ(sum_time(h100(1), Exchange::after, 1e6).microseconds, 0);
  EXPECT_THROW(sum_time(h100(3, 2), Exchange::after, 1), Error);
  EXPECT_TRUE(reach_memory(h100(8)));
  EXPECT_FALSE(reach_memory(h100(16, 2)));
  EXPECT_FALSE(reach_memory({parse_device("null:rtx4090"), 2, 1}));
}

TEST(RankSteps, OfEightH100ExposeAtMostEightMicrosecondsInTheLaunchAndMoreByOneLateCall) {
  for (const double step : {100., 200., 500.}) {
    const StepTime in_launch = step_time(network(step), h100(8), Exchange::in_launch),
                   late = step_time(network(step), h100(8), Exchange::after);
    EXPECT_LE(in_launch.exposed, 8) << step;
    EXPECT_GT(in_launch.exposed, 4.5) << step;  // the last gradient's own latency cannot be hidden
    EXPECT_GT(late.exposed, 25) << step;
    EXPECT_LT(late.exposed, 45) << step;
  }
}

// Whatever the step: communication cannot hide before its gradients exist, nor cost more than all of it one after another.
TEST(RankSteps, ExposeBetweenTheLastSumAndAllSums) {
  for (const int ranks : {1, 2, 3, 8})
    for (const Exchange exchange : {Exchange::after, Exchange::beside, Exchange::in_launch})
      for (const int sums : {1, 2, 10, 100})
        for (const double microseconds : {10., 1000.}) {
          const Step step = network(microseconds);
          const double time = simulate(play_of(step, h100(ranks), exchange, sums)).microseconds;
          const SumTime each = sum_time(h100(ranks), exchange, 1.664e6 / sums);
          const double update = microseconds / 300 + 2;
          EXPECT_GE(time, microseconds + each.microseconds - 1e-6);
          EXPECT_LE(time, microseconds + each.microseconds + (sums - 1) * each.occupied + update);
        }
  EXPECT_EQ(step_time(network(100), h100(1), Exchange::after).exposed, 0);
  EXPECT_EQ(step_time({100, {}}, h100(8), Exchange::after).exposed, 0);
}

TEST(RankSteps, OfAThousandRanksWithAHundredSumsArePlayed) {
  const Play play = play_of(network(1000), h100(1024, 128), Exchange::beside, 100);
  EXPECT_GT(play.tasks.size(), 200000u);
  EXPECT_GT(simulate(play).microseconds, 1000);
}

// Ten layers a bucket or fewer: DDP would make two buckets of this net.
TEST(RankSteps, OfEightH100TakeTenBucketsOrMoreOfTheNetworkWhereTheStepHidesThem) {
  const StepTime beside = step_time(network(1000), h100(8), Exchange::beside);
  EXPECT_GE(beside.sums, 10);
  EXPECT_LT(beside.microseconds, step_time(network(1000), h100(8), Exchange::after).microseconds);
}

TEST(HostSteps, ExchangeBesideTheBackwardPassWhereACoreIsFree) {
  const HostSums sums{.latency = 50, .bytes = 2000};  // 0.9 ms for the network's gradients
  const StepTime free = step_time(network(5000), HostRank{.sums = sums, .cores = 2, .threads = 1}),
                 busy = step_time(network(5000), HostRank{.sums = sums, .cores = 1, .threads = 1});
  EXPECT_GT(free.sums, 1);
  EXPECT_EQ(free.exchange, Exchange::beside);
  EXPECT_LT(free.exposed, 500);
  EXPECT_EQ(busy.sums, 1);
  EXPECT_NEAR(busy.exposed, sums.microseconds(1.664e6), 1);
  EXPECT_EQ(step_time(Step{5000, {}}, HostRank{}).sums, 1);
}

TEST(RankTexts, NameTheLinks) {
  EXPECT_EQ(text(h100(8)), "8 ranks of null:h100 on 1 host, joined by NVLink 4");
  EXPECT_EQ(text(h100(32, 4)),
            "32 ranks of null:h100 on 4 hosts, joined by NVLink 4 and InfiniBand NDR (one 400 Gbit/s adapter a GPU) between hosts");
}

TEST(HostSums, AreMeasuredTheSameOnAllRanks) {
  std::vector<HostSums> found(3);
  distributed::run_ranks(3, [&](distributed::Communicator& c) { found[size_t(c.rank())] = measured_sums(c); });
  for (const HostSums& one : found) {
    EXPECT_GT(one.latency, 0);
    EXPECT_GT(one.bytes, 0);
    EXPECT_EQ(one.latency, found[0].latency);
    EXPECT_EQ(one.bytes, found[0].bytes);
  }
}

}  // namespace
}  // namespace lamina
