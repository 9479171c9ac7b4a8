// The clock of a section's steps: which steps it reports, how often they ran, and that it changes nothing else.
#include <gtest/gtest.h>

#include <map>

#include "kernels/cuda/clock.h"
#include "runtime/device/recording.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"

namespace lamina::kernels::cuda {
namespace {

using profiler::DeviceStep;
using tests::patterned;
using tests::Trial;

std::shared_ptr<const exec::Program> epoch() {
  const tests::LoopsAsTheyAre whole;
  auto step = tests::small_net(std::make_shared<optim::SGD>(0.1));
  auto over_batches = function([step](Tensor xs, Tensor ys) {
    return scan(
        [step](Tensor best, std::tuple<Tensor, Tensor> batch) {
          const Tensor cost = step(std::get<0>(batch), std::get<1>(batch));
          return std::pair(minimum(best, cost), cost);
        },
        tensor({1e9f}, {}), std::tuple(xs, ys));
  });
  return tests::program_of(over_batches.concrete(patterned({4, 6, 40}, 0.02f), patterned({4, 6, 6}, 0.02f)).graph());
}
profiler::Recording recorded(Trial& trial, const section::BlockSection& plan) {
  profiler::start_recording(true);
  trial.run_blocks(plan);
  return profiler::stop_recording();
}

TEST(SectionClock, TimesEachStepOfALaunch) {
  Trial trial(epoch());
  emulation::clock_step = 1000;
  const auto plan = trial.plan(5);
  trial.run_blocks(*plan);
  const auto want = trial.results();
  const profiler::Recording run = recorded(trial, *plan);
  const auto got = trial.results();
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].size() * sizeof(float)), 0) << "result " << i;
  ASSERT_EQ(run.device_steps.size(), plan->plan.steps.size());
  int in_body = 0, products = 0;
  for (const DeviceStep& s : run.device_steps) {
    EXPECT_TRUE(s.times == 1 || s.times == 4) << s.text << ' ' << s.times;
    in_body += s.times == 4;
    products += s.text.find("dense") != std::string::npos;
    EXPECT_GT(s.blocks, 0);
    EXPECT_LE(s.blocks, plan->plan.program.blocks);
    EXPECT_GE(s.began, 0);
    EXPECT_GT(s.ended, s.began) << s.text;
    EXPECT_GT(s.busy, 0) << s.text;
    EXPECT_LT(s.busy, 1e6) << s.text;
    EXPECT_LT(s.waited, 1e6) << s.text;
  }
  EXPECT_GE(in_body, 6);
  EXPECT_GE(products, 4) << "steps have the names of their layers and ops";
  emulation::clock_step = 0;
}

// If a call takes several launches, the times add up.
TEST(SectionClock, AddsUpOverLaunches) {
  Trial trial(epoch());
  const auto plan = trial.plan(5);
  plan->plan.may_be_long = true;
  emulation::clock_step = 1'000'000'000;
  const int64_t before = emulation::counts().launches;
  const profiler::Recording run = recorded(trial, *plan);
  emulation::clock_step = 0;
  EXPECT_GT(emulation::counts().launches - before, 3);
  int64_t most = 0;
  for (const DeviceStep& s : run.device_steps) {
    if (s.text.find("a turn") == std::string::npos)
      most = std::max(most, s.times);  // a turn at which a launch leaves is repeated by the next one
    EXPECT_GE(s.began, 0) << s.text;
    EXPECT_GT(s.ended, s.began) << s.text;
    EXPECT_LT(s.ended, 1e12) << s.text;
  }
  EXPECT_EQ(most, 4);
}

TEST(SectionClock, IsOffByDefault) {
  Trial trial(epoch());
  const auto plan = trial.plan(5);
  profiler::start_recording();
  const auto before = emulation::cycles_now;
  trial.run_blocks(*plan);
  EXPECT_EQ(emulation::cycles_now, before);
  EXPECT_TRUE(profiler::stop_recording().device_steps.empty());
}

// A whole call: steps belong to their instruction's range, and device memory is freed.
TEST(SectionClock, BelongsToARangeOfTheCall) {
  const tests::EmulatedGpu gpu;
  const DeviceScope scope(parse_device("gpu:0"));
  auto step = tests::small_net(std::make_shared<optim::SGD>(0.1));
  const Tensor x = patterned({6, 40}, 0.02f), y = patterned({6, 6}, 0.02f);
  step(x, y), step(x, y);
  const size_t bytes = tests::EmulatedBackend::one().bytes_in_use();
  profiler::start_recording(true);
  {
    const Tensor cost = step(x, y);
  }
  const profiler::Recording run = profiler::stop_recording();
  EXPECT_EQ(tests::EmulatedBackend::one().bytes_in_use(), bytes);
  ASSERT_FALSE(run.device_steps.empty());
  for (const DeviceStep& s : run.device_steps) {
    ASSERT_GE(s.range, 0) << s.text;
    EXPECT_EQ(int(run.ranges[size_t(s.range)].kind), int(profiler::Kind::instruction)) << run.ranges[size_t(s.range)].text;
  }
}

}  // namespace
}  // namespace lamina::kernels::cuda
