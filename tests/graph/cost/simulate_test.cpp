#include "graph/cost/simulate.h"

#include <gtest/gtest.h>

#include "runtime/core/error.h"

namespace lamina {
namespace {

using cost::Play;
using cost::Task;

TEST(Simulator, RunsAStreamInOrderAndStreamsSideBySide) {
  Play play;
  play.streams = 2;
  play.add({.stream = 0, .microseconds = 3}, {});
  play.add({.stream = 0, .microseconds = 4}, {});
  play.add({.stream = 1, .microseconds = 5}, {});
  const cost::Timeline t = simulate(play);
  EXPECT_EQ(t.start, (std::vector<double>{0, 3, 0}));
  EXPECT_EQ(t.end, (std::vector<double>{3, 7, 5}));
  EXPECT_EQ(t.microseconds, 7);
}

TEST(Simulator, AWaitAddsTheLatencyOfTheLink) {
  Play play;
  play.streams = 2;
  const int first = play.add({.stream = 0, .microseconds = 3}, {});
  play.add({.stream = 1, .microseconds = 2}, {{first, 10}});
  EXPECT_EQ(simulate(play).start[1], 13);
}

TEST(Simulator, TasksThatWantMoreThanThereIsSlowEachOtherDown) {
  Play play;
  play.streams = 3;
  play.resources = {2};
  for (int s = 0; s < 3; ++s) {
    Task task{.stream = s, .microseconds = s == 2 ? 2.0 : 4.0};
    task.resources[0] = 0, task.amounts[0] = 1;
    play.add(task, {});
  }
  // Three at two thirds of their speed until the short one ends after 3 us; then two at full speed, with 2 us left each.
  const cost::Timeline t = simulate(play);
  EXPECT_NEAR(t.end[2], 3, 1e-9);
  EXPECT_NEAR(t.end[0], 5, 1e-9);
  EXPECT_NEAR(t.end[1], 5, 1e-9);
}

TEST(Simulator, TasksThatWaitForEachOtherAreAnError) {
  Play play;
  play.streams = 2;
  play.add({.stream = 0, .microseconds = 1}, {{1, 0}});
  play.add({.stream = 1, .microseconds = 1}, {{0, 0}});
  EXPECT_THROW(simulate(play), Error);
}

TEST(Simulator, PlaysAThousandDevicesWithAHundredLayers) {
  Play play;
  play.streams = 1024;
  play.resources.assign(1024, 1);
  std::vector<int> last(1024, -1);
  for (int layer = 0; layer < 100; ++layer) {
    const std::vector<int> before = last;
    for (int d = 0; d < 1024; ++d) {
      Task task{.stream = d, .microseconds = 5};
      task.resources[0] = d, task.amounts[0] = 1;
      std::vector<std::pair<int, double>> after;
      if (layer > 0) after.emplace_back(before[size_t((d + 1) % 1024)], 2);
      last[size_t(d)] = play.add(task, after);
    }
  }
  EXPECT_NEAR(simulate(play).microseconds, 100 * 5 + 99 * 2, 1e-6);
}

TEST(Costs, OfThisMachineArePositive) {
  const cost::Costs& costs = cost::Costs::here();
  EXPECT_GT(costs.cpu().flops, 100) << costs.text();
  EXPECT_GT(costs.cpu().bytes, 100) << costs.text();
  EXPECT_GE(costs.cpu().hand_over, 1) << costs.text();
  const Device a = parse_device("null:h100"), b = parse_device("null:h100:1"), old = parse_device("null:a100"),
               game = parse_device("null:rtx4090");
  EXPECT_STREQ(costs.link(a, b).name, "NVLink 4");
  EXPECT_STREQ(costs.link(old, old).name, "no link");
  EXPECT_STREQ(costs.link(old, parse_device("null:a100:1")).name, "NVLink 3");
  EXPECT_STREQ(costs.link(game, parse_device("null:rtx4090:1")).name, "PCIe 4");
  EXPECT_STREQ(costs.link(a, {}).name, "PCIe 5");
}

}  // namespace
}  // namespace lamina
