// Scans whose stacked inputs stay on the host: slices arrive through a ring while the section runs.
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/clock.h"
#include "kernels/cuda/section_infeed.h"
#include "runtime/core/error.h"
#include "tests/emulated/emulated_backend.h"
#include "tests/emulated/networks.h"
#include "tests/emulated/section_trial.h"

namespace lamina::kernels::cuda {
namespace {

using section::BlockSection;
using section::BlockTurn;
using tests::EmulatedBackend;
using tests::EmulatedGpu;
using tests::LoopsAsTheyAre;
using tests::patterned;
using tests::program_of;
using tests::scan_over_batches;
using tests::Trial;

Tensor some(Shape shape, int seed = 0) { return patterned(shape, 0.02f, seed); }
Tensor on_host(Shape shape, int seed = 0) {
  const DeviceScope cpu(parse_device("cpu:0"));
  return some(shape, seed);
}

std::shared_ptr<const exec::Program> training(int64_t batches) {
  const LoopsAsTheyAre whole;
  auto step = scan_over_batches(std::make_shared<tests::TwoLayers>());
  return program_of(step.concrete(some({batches, 5, 12}), some({batches, 5, 3}, 3)).graph());
}
void expect_bits(const std::vector<std::vector<float>>& want, const std::vector<std::vector<float>>& got, const std::string& what) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].size() * sizeof(float)), 0) << what << ", result " << i;
}

// Chunks that fill the rings once, several times, and partially; the host copies the next one as early as allowed.
TEST(SectionInfeed, MatchesStacksOnTheDevice) {
  for (int64_t batches : {1, 2, 5, 8}) {
    Trial trial(training(batches));
    trial.run_blocks(*trial.plan(5));
    const auto want = trial.results();
    for (int chunk : {1, 2, 3})
      for (int blocks : {1, 5}) {
        const auto plan = trial.plan_with_infeed(blocks, chunk);
        ASSERT_EQ(plan->plan.infeed.stacks.size(), 2u);
        const auto run = [&] {
          const int64_t before = emulation::counts().launches;
          trial.run_blocks(*plan);
          EXPECT_EQ(emulation::counts().launches - before, 1);
          expect_bits(want, trial.results(), cat(batches, " batches, ", chunk, " at a time, ", plan->plan.program.blocks, " blocks"));
        };
        if (races_are_checked())
          run();
        else
          in_every_order(run);
      }
  }
}

// A launch without slices does not wait for ever: it leaves, and the next one continues with the slices that have arrived.
TEST(SectionInfeed, LeavesWhenTheHostSleeps) {
  Trial trial(training(7));
  trial.run_blocks(*trial.plan(5));
  const auto want = trial.results();
  emulation::host_sleeps = true;
  emulation::clock_step = 1'000'000;
  for (int chunk : {1, 2, 3}) {
    const auto plan = trial.plan_with_infeed(5, chunk);
    const int64_t before = emulation::counts().launches;
    trial.run_blocks(*plan);
    // Before each launch everything that fits is copied: two chunks, then one more per chunk read.
    EXPECT_EQ(emulation::counts().launches - before, std::max(1, (7 + chunk - 1) / chunk - 1)) << chunk << " at a time";
    expect_bits(want, trial.results(), cat(chunk, " at a time"));
  }
  emulation::host_sleeps = false;
  emulation::clock_step = 0;
}

// Planted bug: a launch that does not wait for slices reads old chunks in the rings.
TEST(SectionInfeed, EveryWaitIsNeeded) {
  Trial trial(training(8));
  trial.run_blocks(*trial.plan(5));
  const auto want = trial.results();
  const auto plan = trial.plan_with_infeed(5, 1);
  auto* turns = reinterpret_cast<BlockTurn*>(plan->plan.bytes.data() + plan->plan.program.turns_at);
  for (size_t t = 0; t < plan->plan.turns.size(); ++t) turns[t].infeed = 0;
  trial.run_blocks(*plan);
  EXPECT_GT(tests::difference(want, trial.results()), 1e-3);
}

// Whole calls: a loop over batches on the host.
struct Setting {
  explicit Setting(const char* value, const char* name = "LAMINA_CUDA_INFEED") : name(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }
  Setting(const Setting&) = delete;
  const char* name;
};
struct Outcome {
  std::vector<std::vector<float>> values;
  int launches = 0;
  std::string plan;
};
Outcome train_from_host() {
  const EmulatedGpu gpu;
  const LoopsAsTheyAre whole;
  const Tensor xs = on_host({9, 5, 12}), ys = on_host({9, 5, 3}, 3);
  const DeviceScope scope(parse_device("gpu:0"));
  const auto net = std::make_shared<tests::TwoLayers>();
  auto step = scan_over_batches(net);
  step(xs, ys);
  Outcome run;
  run.plan = step.explain(xs, ys);
  const int before = EmulatedBackend::one().launches();
  auto [best, losses] = step(xs, ys);
  run.launches = EmulatedBackend::one().launches() - before;
  run.values = {best.to_vector<float>(), losses.to_vector<float>()};
  for (const Variable& v : net->layers) run.values.push_back(v.read().to_vector<float>());
  return run;
}
TEST(SectionInfeed, IsUsedByACallWithBatchesOnTheHost) {
  Outcome copied, fed;
  {
    const Setting off("off");
    copied = train_from_host();
  }
  {
    const Setting on("on");
    fed = train_from_host();
  }
  EXPECT_EQ(copied.plan.find("from the host"), std::string::npos) << copied.plan;
  EXPECT_NE(fed.plan.find("2 stacked values from the host, 2 slices at a time"), std::string::npos) << fed.plan;
  EXPECT_EQ(copied.launches, 1);
  EXPECT_EQ(fed.launches, 1);
  expect_bits(copied.values, fed.values, "fed");
}

// The arguments' devices decide, per call. Inputs that no section uses are copied before the call, outside of its temporary memory.
TEST(SectionInfeed, IsPlannedForTheDevicesOfArguments) {
  const Setting on("on");
  const EmulatedGpu gpu;
  const LoopsAsTheyAre whole;
  const Tensor xs = on_host({8, 4, 5});
  const DeviceScope scope(parse_device("gpu:0"));
  auto sums = function(
      [](Tensor start, Tensor xs) { return scan([](Tensor s, Tensor x) { return std::pair(s + x, s * 2.0f); }, start, xs).first; });
  const Tensor start = some({4, 5});
  ConcreteFunction& concrete = sums.concrete(start, xs);
  const std::vector<float> want = concrete.call(std::vector<Tensor>{start, xs.to(start.device())})[0].to_vector<float>();
  EXPECT_EQ(concrete.explain().find("from the host"), std::string::npos);
  EXPECT_EQ(concrete.call(std::vector<Tensor>{start, xs})[0].to_vector<float>(), want);
  EXPECT_NE(concrete.explain().find("from the host"), std::string::npos);
  EXPECT_EQ(concrete.plan_count(), 2);

  auto wide = function([](Tensor start, Tensor xs, Tensor w) {
    return scan([&](Tensor s, Tensor x) { return std::pair(matmul(s + x, w), s); }, start, xs).first;
  });
  const Tensor many = on_host({40, 2, 300}), first = some({2, 300}), w = some({300, 300});
  wide(first, many, w);
  EXPECT_LT(wide.concrete(first, many, w).temporary_bytes(), 40 * 2 * 300 * 4);
}

// A label out of range ends the launch: nothing has changed, and the next call starts with the first slice.
TEST(SectionInfeed, EndsWithTheLaunch) {
  const Setting on("on");
  const EmulatedGpu gpu;
  const LoopsAsTheyAre whole;
  constexpr int batches = 9;
  std::vector<int64_t> labels(2 * batches);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = int64_t(i) % 5;
  const Tensor xs = on_host({batches, 2, 12});
  const auto on_host_too = [&] {
    const DeviceScope cpu(parse_device("cpu:0"));
    return tensor(labels, {batches, 2});
  };
  const Tensor good = on_host_too();
  labels[9] = 7;
  const Tensor bad = on_host_too();
  const DeviceScope scope(parse_device("gpu:0"));
  const Variable w(some({12, 5}), "kernel");
  auto step = tests::classifier_over_batches(w);
  const std::vector<float> start = w.read().to_vector<float>();
  const std::vector<float> first = step(xs, good).to_vector<float>();
  const std::vector<float> before = w.read().to_vector<float>();
  std::string why;
  try {
    step(xs, bad);
  } catch (const Error& e) {
    why = e.what();
  }
  EXPECT_NE(why.find("label"), std::string::npos) << why;
  EXPECT_EQ(w.read().to_vector<float>(), before);
  w.assign(tensor(start, {12, 5}));
  EXPECT_EQ(step(xs, good).to_vector<float>(), first);
}

}  // namespace
}  // namespace lamina::kernels::cuda
