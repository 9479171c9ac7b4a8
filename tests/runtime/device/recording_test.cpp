#include "runtime/device/recording.h"

#include <gtest/gtest.h>

namespace lamina::profiler {
namespace {

DeviceStep step(const char* text) {
  return {.text = text, .range = -1, .times = 3, .blocks = 7, .began = 1, .ended = 2, .busy = 4.5, .waited = 0.25};
}

TEST(Recording, KeepsStepsOfDevicesWithTheRangeAroundThem) {
  start_recording(true);
  EXPECT_TRUE(step_clock_runs());
  add_device_steps({step("before")});
  {
    const Range call("call", Kind::function), launch("section of 2 steps", Kind::instruction);
    add_device_steps({step("dense_1"), step("dense_2")});
  }
  const Recording run = stop_recording();
  EXPECT_FALSE(step_clock_runs());
  ASSERT_EQ(run.device_steps.size(), 3u);
  EXPECT_EQ(run.device_steps[0].range, -1);
  EXPECT_EQ(run.device_steps[2].text, "dense_2");
  ASSERT_EQ(run.ranges.size(), 2u) << "steps are no ranges of the recording";
  EXPECT_EQ(run.ranges[size_t(run.device_steps[2].range)].text, "section of 2 steps");
}

TEST(Recording, HasDeviceStepsOnlyOnRequest) {
  start_recording();
  EXPECT_FALSE(step_clock_runs());
  add_device_steps({step("dense_1")});  // for a tool, which gets them as ranges
  const Recording run = stop_recording();
  EXPECT_TRUE(run.device_steps.empty());
  ASSERT_EQ(run.ranges.size(), 1u);
  EXPECT_EQ(run.ranges[0].text, "dense_1: 4.50 us busy, 0.25 us waited, 3 times, 7 blocks");
  start_recording(true);
  EXPECT_TRUE(stop_recording().device_steps.empty()) << "the recording before had them";
}

}  // namespace
}  // namespace lamina::profiler
