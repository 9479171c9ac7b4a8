// Which stacked inputs of a loop on a GPU stay on the host.
#include <gtest/gtest.h>

#include <cstdlib>

#include "graph/compile/compile.h"
#include "graph/compile/infeed.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/control_flow.h"
#include "graph/functions/op_functions.h"
#include "graph/passes/pipeline.h"
#include "kernels/section/block_section.h"
#include "runtime/core/error.h"

namespace lamina::compile {
namespace {

struct Setting {
  Setting(const char* name, const char* value) : name(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name); }
  Setting(const Setting&) = delete;
  const char* name;
};
struct NoInfeedSetting : testing::Test {
  NoInfeedSetting() { unsetenv("LAMINA_CUDA_INFEED"), unsetenv("LAMINA_RESIDENT"); }
};
using InfeedPlan = NoInfeedSetting;

constexpr int64_t kMegabyte = int64_t{1} << 20;

TEST_F(InfeedPlan, UsesChunksOfAMegabyteIfThereAreFour) {
  const StackOnHost stacks[] = {{1, 62720}, {2, 160}};
  const section::Infeed plan = plan_infeed(stacks, 3000);
  EXPECT_EQ(plan.chunk, kMegabyte / 62880);
  EXPECT_EQ(plan.inputs, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(plan_infeed(stacks, 63).chunk, 0);
  EXPECT_EQ(plan_infeed(stacks, 64).chunk, 16);
  const StackOnHost large[] = {{1, 5 * kMegabyte}};
  EXPECT_EQ(plan_infeed(large, 3).chunk, 0);
  EXPECT_EQ(plan_infeed(large, 4).chunk, 1) << "a slice is a chunk at least";
}

TEST_F(InfeedPlan, FollowsTheEnvironment) {
  const StackOnHost stacks[] = {{0, 4}, {1, 0}};
  {
    const Setting on("LAMINA_CUDA_INFEED", "on");
    EXPECT_EQ(plan_infeed(stacks, 9).chunk, 2);
    EXPECT_EQ(plan_infeed(stacks, 9).inputs, (std::vector<int32_t>{0})) << "nothing comes of slices without bytes";
    EXPECT_EQ(plan_infeed(stacks, 1).chunk, 1);
    EXPECT_EQ(plan_infeed(stacks, 0).chunk, 0);
    EXPECT_EQ(plan_infeed({}, 9).chunk, 0);
    const Setting staged("LAMINA_RESIDENT", "staged");
    EXPECT_EQ(plan_infeed(stacks, 9).chunk, 0) << "under a profiler no launch waits for the host";
  }
  const StackOnHost much[] = {{0, kMegabyte}};
  EXPECT_EQ(plan_infeed(much, 9).chunk, 1);
  {
    const Setting off("LAMINA_CUDA_INFEED", "off");
    EXPECT_EQ(plan_infeed(much, 9).chunk, 0);
  }
  const Setting wrong("LAMINA_CUDA_INFEED", "maybe");
  try {
    plan_infeed(stacks, 9);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("LAMINA_CUDA_INFEED=maybe"), std::string::npos) << e.what();
  }
}

// The device of each input by letter: c for the CPU, g for the GPU.
std::shared_ptr<const exec::Program> program_with(const ir::Graph& g, const std::string& inputs) {
  std::vector<Device> devices;
  for (char c : inputs) devices.push_back(parse_device(c == 'c' ? "cpu:0" : "null:h100"));
  passes::set_disabled_passes({"fold_branches"});
  const ir::Graph optimized = passes::optimize(g).graph;
  passes::set_disabled_passes({});
  return compile(optimized,
                 {.device = parse_device("null:h100"), .input_devices = devices, .variable_devices = {}, .sections = true, .threads = 1});
}
int copies_of(const exec::Program& p) {
  int count = 0;
  for (const exec::Instruction& i : p.instructions) count += i.source_stream >= 0;
  return count;
}
const section::BlockPlan& plan_of(const exec::Program& p) {
  return static_cast<const section::BlockSection*>(p.instructions.back().kernel.args.get())->plan;
}
Tensor some(Shape shape) {
  int64_t size = 1;
  for (Dim d : shape) size *= d.number();
  return tensor(std::vector<float>(size_t(size), 0.5f), shape);
}
ir::Graph running_sum(ScanOptions options = {.length = -1, .reverse = false, .names = {}}) {
  auto f = function([=](Tensor start, Tensor xs, Tensor ys) {
    return scan([](Tensor s, std::tuple<Tensor, Tensor> now) { return std::pair(s + std::get<0>(now), std::get<1>(now) * 2.0f); }, start,
                std::tuple(xs, ys), options);
  });
  return f.concrete(some({4}), some({8, 4}), some({8, 3})).graph();
}

TEST_F(InfeedPlan, StreamsStacksFromTheHostWithoutCopies) {
  const Setting on("LAMINA_CUDA_INFEED", "on");
  const ir::Graph g = running_sum();
  for (const auto& [inputs, copies, stacks] :
       {std::tuple("ggg", 0, 0), std::tuple("ccc", 1, 2), std::tuple("ggc", 0, 1), std::tuple("gcg", 0, 1)}) {
    const auto program = program_with(g, inputs);
    EXPECT_EQ(copies_of(*program), copies) << inputs << '\n' << exec::print(*program);
    const section::BlockPlan& plan = plan_of(*program);
    ASSERT_EQ(plan.infeed.stacks.size(), size_t(stacks)) << inputs;
    EXPECT_EQ(program->instructions.back().waits, stacks > 0) << "no graph can be made of a launch that the host follows";
    EXPECT_EQ(plan.may_be_long, stacks > 0);
    if (stacks == 0) continue;
    EXPECT_EQ(plan.infeed.chunk, 2);
    EXPECT_EQ(plan.infeed.slices, 8);
    const std::string text = exec::print(*program);
    EXPECT_NE(
        text.find(stacks == 1 ? "1 stacked value from the host, 2 slices at a time" : "2 stacked values from the host, 2 slices at a time"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find("waits for the host each 2 iterations"), std::string::npos) << text;
  }
}

TEST_F(InfeedPlan, ListsInputsThatTheCallerNeedNotCopy) {
  using Places = std::vector<size_t>;
  const ir::Graph g = running_sum();
  EXPECT_EQ(inputs_for_infeed(g), Places{}) << "28 numbers are little";
  const Setting on("LAMINA_CUDA_INFEED", "on");
  EXPECT_EQ(inputs_for_infeed(g), (Places{1, 2}));
  EXPECT_EQ(inputs_for_infeed(running_sum({.length = -1, .reverse = true, .names = {}})), Places{});
  auto twice = function([](Tensor start, Tensor xs, Tensor ys) {
    auto [last, outs] = scan([](Tensor s, std::tuple<Tensor, Tensor> now) { return std::pair(s + std::get<0>(now), std::get<1>(now)); },
                             start, std::tuple(xs, ys));
    return std::tuple(last, outs, sum(xs));
  });
  EXPECT_EQ(inputs_for_infeed(twice.concrete(some({4}), some({8, 4}), some({8, 3})).graph()), Places{2});
}

TEST_F(InfeedPlan, CopiesStacksUsedWholeOrBackwards) {
  const Setting on("LAMINA_CUDA_INFEED", "on");
  EXPECT_EQ(copies_of(*program_with(running_sum({.length = -1, .reverse = true, .names = {}}), "gcc")), 2);
  auto twice = function([](Tensor start, Tensor xs) {
    auto [last, outs] = scan([](Tensor s, Tensor x) { return std::pair(s + x, s); }, start, xs);
    return std::tuple(last, outs, sum(xs));
  });
  EXPECT_EQ(copies_of(*program_with(twice.concrete(some({4}), some({8, 4})).graph(), "gc")), 1);
  auto captured =
      function([](Tensor start, Tensor xs) { return scan([&](Tensor s, Tensor x) { return std::pair(s + x, sum(xs)); }, start, xs); });
  EXPECT_EQ(copies_of(*program_with(captured.concrete(some({4}), some({8, 4})).graph(), "gc")), 1);
  auto computed =
      function([](Tensor start, Tensor xs) { return scan([](Tensor s, Tensor x) { return std::pair(s + x, s); }, start, xs * 2.0f); });
  EXPECT_EQ(copies_of(*program_with(computed.concrete(some({4}), some({8, 4})).graph(), "gc")), 1);
  auto wide = function([](Tensor start, Tensor xs, Tensor w) {
    return scan([&](Tensor s, Tensor x) { return std::pair(matmul(s + x, w), s); }, start, xs);
  });
  EXPECT_EQ(copies_of(*program_with(wide.concrete(some({4, 300}), some({8, 4, 300}), some({300, 300})).graph(), "gcg")), 1)
      << "a layer wider than 256: the host runs the loop";
}

// An enclosing loop reads the slices again.
TEST_F(InfeedPlan, IsForOneOutermostLoop) {
  const Setting on("LAMINA_CUDA_INFEED", "on");
  auto nested = function([](Tensor start, Tensor xs) {
    return fori_loop(
        0, 3, [&](Tensor, Tensor s) { return scan([](Tensor t, Tensor x) { return std::pair(t + x, sum(t)); }, s, xs).first; }, start);
  });
  EXPECT_EQ(copies_of(*program_with(nested.concrete(some({4}), some({8, 4})).graph(), "gc")), 1);
  auto two = function([](Tensor start, Tensor xs, Tensor ys) {
    const Tensor first = scan([](Tensor t, Tensor x) { return std::pair(t + x, sum(t)); }, start, xs).first;
    return scan([](Tensor t, Tensor y) { return std::pair(t * y, sum(t)); }, first, ys).first;
  });
  const auto program = program_with(two.concrete(some({4}), some({8, 4}), some({6, 4})).graph(), "gcc");
  EXPECT_EQ(copies_of(*program), 1) << exec::print(*program);
  size_t stacks = 0;
  for (const exec::Instruction& i : program->instructions)
    if (i.section_steps > 0) stacks += static_cast<const section::BlockSection*>(i.kernel.args.get())->plan.infeed.stacks.size();
  EXPECT_EQ(stacks, 1u) << exec::print(*program);
}

}  // namespace
}  // namespace lamina::compile
