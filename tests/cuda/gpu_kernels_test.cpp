// The kernels compiled by nvcc, launched on a simulated card that records them without running them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "graph/compile/compile.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "kernels/section/block_section.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/exec/executor.h"
#include "tests/cuda/fake_cuda.h"
#include "tests/ops/op_case.h"

namespace lamina::kernels::cuda {
namespace resident {
struct Arguments;
}
// As section.cu has it.
void section_kernel(resident::Arguments);
}  // namespace lamina::kernels::cuda

namespace lamina::cuda {
namespace {

constexpr Device kCard{.kind = DeviceKind::gpu, .model = 0, .index = 0};

TEST(GpuKernels, AreLinkedForEveryOpThatDeclaresOne) {
  ASSERT_NE(section::block_runner(), nullptr) << "section_kernel";
  std::set<std::string> there, missing;
  for (const auto& [name, make] : tests::cases_of_ops()) {
    const ir::OpDef& op = ir::find_op(name);
    if (!op.cuda) continue;
    missing.insert(name);
    for (const tests::OpCase& c : make())
      for (DType dtype : c.dtypes) {
        ir::Graph g;
        std::vector<TensorType> types;
        for (const tests::CaseInput& in : tests::inputs_as(c, dtype)) types.push_back(in.type), g.add_input(in.type);
        const ir::Node node = g[g.add(op, c.attrs, g.inputs, c.regions)];
        if (op.cuda({*node.attrs, types, node.types, node.regions})) there.insert(name);
      }
    if (there.count(name)) missing.erase(name);
  }
  EXPECT_GE(there.size(), 100u);
  for (const std::string& name : missing) ADD_FAILURE() << name << " has a hook for GPUs and no kernel";
  for (const char* name : {"add", "matmul", "conv2d", "sort", "gather", "softmax", "random_uniform"})
    EXPECT_TRUE(there.count(name)) << name;
}

class OnASimulatedCard : public testing::Test {
 protected:
  OnASimulatedCard() {
    FakeCuda::reset();
    fake.memory = size_t{1} << 28;
    fake.only_records_kernels = true;
    replace_backend(DeviceKind::gpu, &backend);
  }
  ~OnASimulatedCard() override {
    replace_backend(DeviceKind::gpu, nullptr);
    fake.work.finish_all();
    FakeCuda::reset();
  }
  int times(const std::string& call) {
    return int(std::count_if(fake.calls.begin(), fake.calls.end(), [&](const std::string& c) { return c.starts_with(call); }));
  }
  // Small layers, which form a section, between two cumsums, which are in none.
  static ir::Graph layers_between_cumsums() {
    ir::Graph g;
    const TensorType rows{DType::f32, {20, 64}}, weights{DType::f32, {64, 64}};
    ir::Value x = ops::cumsum(g, g.add_input(rows), 1);
    std::vector<ir::Value> w;
    for (int layer = 0; layer < 4; ++layer) w.push_back(g.add_input(weights));
    for (ir::Value each : w) x = ops::tanh(g, ops::matmul(g, x, each));
    g.outputs = {ops::cumsum(g, x, 1)};
    return passes::optimize(g).graph;
  }
  static std::vector<BufferRef> inputs_of(const ir::Graph& g) {
    std::vector<BufferRef> inputs;
    for (ir::Value v : g.inputs) inputs.push_back(std::make_shared<Buffer>(kCard, size_t(byte_size(g[v].types[0]))));
    return inputs;
  }

  FakeCuda& fake = FakeCuda::now();
  CudaBackend backend{fake_api()};
};

TEST_F(OnASimulatedCard, ASectionIsPartOfAGraph) {
  const ir::Graph g = layers_between_cumsums();
  const auto program = compile::compile(g, {.device = kCard, .input_devices = {}, .variable_devices = {}});
  ASSERT_TRUE(std::any_of(program->instructions.begin(), program->instructions.end(), [](const auto& i) { return i.section_steps > 0; }))
      << exec::print(*program);
  exec::Executor executor(program);
  const std::vector<BufferRef> inputs = inputs_of(g);
  for (int n = 0; n < 5; ++n) executor.run(inputs, {});
  EXPECT_EQ(executor.graphs().find("one by one"), std::string::npos) << executor.graphs();
  EXPECT_EQ(times("graph_launch"), 4) << "every run but the first";
}

// Each graph has its own counters, because two may run at once.
TEST_F(OnASimulatedCard, EachGraphHasItsOwnSectionState) {
  const ir::Graph g = layers_between_cumsums();
  const auto program = compile::compile(g, {.device = kCard, .input_devices = {}, .variable_devices = {}});
  const std::vector<BufferRef> inputs = inputs_of(g);
  const size_t before = fake.used;
  {
    exec::Executor one(program), other(program);
    for (int n = 0; n < 3; ++n) one.run(inputs, {});
    const size_t with_one = fake.used;
    for (int n = 0; n < 3; ++n) other.run(inputs, {});
    EXPECT_GT(fake.used, with_one);
    EXPECT_EQ(other.graphs().find("one by one"), std::string::npos) << other.graphs();
  }
  EXPECT_LE(fake.used, before + (size_t{1} << 20)) << "what stays is the section's, per stream";
}

TEST_F(OnASimulatedCard, ASectionHasNoMoreBlocksThanAreResident) {
  const section::BlockRunner* const own = section::block_runner();
  static int resident;
  section::BlockRunner fewer = *own;
  fewer.resident_blocks = [](Device) { return resident; };
  section::set_block_runner(&fewer);
  const ir::Graph g = layers_between_cumsums();
  for (resident = 1; resident <= 140; resident += resident < 12 ? 1 : 32) {
    const auto program = compile::compile(g, {.device = kCard, .input_devices = {}, .variable_devices = {}});
    for (const exec::Instruction& i : program->instructions)
      if (i.section_steps > 0) {
        EXPECT_LE(static_cast<const section::BlockSection*>(i.kernel.args.get())->plan.program.blocks, std::min(resident, 128));
      }
  }
  resident = 0;
  try {
    compile::compile(g, {.device = kCard, .input_devices = {}, .variable_devices = {}});
    ADD_FAILURE() << "a section that no card can hold was planned";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_FALSE(e.parts.fix.empty());
  }
  section::set_block_runner(own);
}

TEST_F(OnASimulatedCard, TheCardIsAskedForItsOccupancy) {
  fake.resident_blocks = 2;
  EXPECT_EQ(section::block_runner()->resident_blocks(kCard), 2 * 132);
  fake.resident_blocks = 0;
  EXPECT_EQ(section::block_runner()->resident_blocks(kCard), 0);
  EXPECT_EQ(FakeCuda::last, cudaSuccess);
}

TEST_F(OnASimulatedCard, AKernelsSharedMemoryIsAllowedOnceAndTheCardIsAskedForItOnce) {
  const ir::Graph g = layers_between_cumsums();
  exec::Executor executor(compile::compile(g, {.device = kCard, .input_devices = {}, .variable_devices = {}}));
  const std::vector<BufferRef> inputs = inputs_of(g);
  executor.run(inputs, {});
  fake.calls.clear();
  for (int n = 0; n < 5; ++n) executor.run(inputs, {});
  EXPECT_EQ(times("function_attribute"), 0);
  EXPECT_EQ(times("device_properties"), 0);
}

TEST_F(OnASimulatedCard, TheLaunchedKernelIsTheReportedOne) {
  const ir::Graph g = layers_between_cumsums();
  const auto program = compile::compile(g, {.device = kCard, .input_devices = {}, .variable_devices = {}});
  int sections = 0;
  for (const exec::Instruction& i : program->instructions) {
    if (i.section_steps == 0) continue;
    ++sections;
    EXPECT_NE(i.detail.find("; run by section_kernel\n"), std::string::npos) << i.detail;
  }
  ASSERT_GT(sections, 0);
  const std::vector<BufferRef> inputs = inputs_of(g);
  exec::Executor(program).run(inputs, {});
  EXPECT_EQ(times("launch " + handle_text(reinterpret_cast<const void*>(&kernels::cuda::section_kernel))), sections);
}

// Thrust calls cudart directly, which has no card here.
TEST_F(OnASimulatedCard, AFailureInThrustIsAnErrorOfTheInstruction) {
  int cards = 0;
  if (cudaGetDeviceCount(&cards) == cudaSuccess && cards > 0) GTEST_SKIP() << "a real card would be handed the simulated one's streams";
  ir::Graph g;
  g.outputs = {ops::sort(g, g.add_input(TensorType{DType::f32, {1000}}), 0)};
  exec::Executor executor(compile::compile(g, {.device = kCard, .input_devices = {}, .variable_devices = {}}));
  const std::vector<BufferRef> inputs = inputs_of(g);
  const size_t before = fake.used;
  try {
    executor.run(inputs, {});
    ADD_FAILURE() << "it was sorted without a card";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::device);
    EXPECT_EQ(e.parts.what, "cuda: cannot launch sort");
    EXPECT_NE(e.parts.why.find("cudaError"), std::string::npos) << e.parts.why;
  }
  EXPECT_EQ(fake.used, before) << "scratch memory was kept";
}

}  // namespace
}  // namespace lamina::cuda
