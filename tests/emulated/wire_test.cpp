// The wire of perf/gpu, beside one rank's launch on the emulation.
#include <gtest/gtest.h>

#include "tests/cuda/wire_kernel.h"
#include "tests/emulated/ranks_job.h"

namespace lamina::kernels::cuda {
namespace {

void start(const WireLaunch& w) {
  Stream stream = cpu_backend().default_stream({});
  // Launches that run together are cooperative on the emulation.
  launch<wire>(stream, {.grid = {1}, .threads = unsigned(kWireThreads), .shared_bytes = 0, .cooperative = true}, w);
}

struct OnDevice {
  OnDevice(Job& job, int ranks) : sums(job.layout().values), windows(job.windows().addresses) {
    w = {.sums = sums.data(),
         .values = int(sums.size()),
         .rank = ranks - 1,
         .windows = windows.data(),
         .launch = 1,
         .nanoseconds = 0,
         .most_nanoseconds = 1ull << 40,
         .missing = missing.data()};
  }
  Buffer<section::BlockSum> sums;
  Buffer<char*> windows;
  Buffer<unsigned> missing{0u};
  WireLaunch w;
};
struct Clock {
  explicit Clock(unsigned long long step) { emulation::clock_now = 0, emulation::clock_step = step; }
  ~Clock() { emulation::clock_step = 0; }
};

TEST(Wire, BringsTheOtherRanksValuesAfterItsTime) {
  Net net;
  const ir::Graph whole = net.graph();
  for (const int ranks : {2, 4}) {
    const int rank = ranks - 1;
    Job job(whole, ranks, 8, 64);
    job.plan(5);
    job.run(1);
    const Numbers want = job.variables(rank);
    const auto brought = job.windows().contents();
    for (const unsigned long long time : {0, 100'000}) {
      SCOPED_TRACE(cat(ranks, " ranks, ", time, " ns"));
      job.plan(5);
      OnDevice on(job, ranks);
      on.w.nanoseconds = time;
      const Clock clock(100);
      job.run_beside(rank, brought, [&] { start(on.w); });
      EXPECT_EQ(on.missing[0], 0u);
      EXPECT_GE(emulation::clock_now, time);
      EXPECT_TRUE(same_bits(job.variables(rank), want));
      for (int other = 0; other < ranks; ++other) EXPECT_EQ(job.flag(other, 1), 1u) << "rank " << other;
    }
  }
}

TEST(Wire, CountsValuesThatAreNeverAnnounced) {
  Net net;
  Job job(net.graph(), 2);
  job.plan(2);
  OnDevice on(job, 2);
  on.w.most_nanoseconds = 10'000;
  const Clock clock(100);
  emulation::run_together({[&] { start(on.w); }});
  EXPECT_EQ(on.missing[0], on.sums.size());
  EXPECT_EQ(job.flag(0, 1), 0u);
  EXPECT_EQ(*reinterpret_cast<const unsigned*>(job.windows().addresses[1]), 1u) << "its launch would wait for ever";
}

}  // namespace
}  // namespace lamina::kernels::cuda
