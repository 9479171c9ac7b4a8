// Programs on four fake GPUs, and on two that are split into logical devices. Work runs in any order that streams and events allow, so
// results must equal those of one CPU device bit for bit.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/autodiff/gradient.h"
#include "graph/compile/place.h"
#include "graph/ops/ops.h"
#include "graph/passes/pipeline.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/device/virtual_gpus.h"
#include "tests/cuda/fake_launch.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {
namespace {

using cuda::FakeCuda;

constexpr Device cpu(int index) { return {DeviceKind::cpu, 0, int16_t(index)}; }
constexpr Device gpu(int index) { return {DeviceKind::gpu, 0, int16_t(index)}; }

class SeveralGpus : public testing::TestWithParam<int> {  // logical devices of each GPU; four in all
 protected:
  static constexpr int kDevices = 4;
  void SetUp() override {
    setenv("LAMINA_CUDA_GRAPHS", "0", 1);
    FakeCuda::reset();
    note_gpu_use(false);
    split_gpus(GetParam());
    fake.devices = kDevices / GetParam();
    fake.memory = size_t{64} << 20;
    backend = std::make_unique<cuda::CudaBackend>(cuda::fake_api());
    replace_backend(DeviceKind::gpu, backend.get());
  }
  void TearDown() override {
    fake.work.finish_all();
    replace_backend(DeviceKind::gpu, nullptr);
    Launch::all().clear();
    unsetenv("LAMINA_CUDA_GRAPHS");
    note_gpu_use(false);
    split_gpus(1);
    FakeCuda::reset();
  }

  // A plan for several devices of the CPU, moved to the GPUs.
  static std::shared_ptr<exec::Program> on_gpus(const exec::Program& planned) {
    auto p = std::make_shared<exec::Program>(planned);
    const auto move = [](Device& d) { d.kind = DeviceKind::gpu; };
    for (auto* devices : {&p->input_devices, &p->output_devices, &p->devices})
      for (Device& d : *devices) move(d);
    for (exec::StreamUse& s : p->streams) move(s.device);
    for (exec::VariableUse& v : p->variables) move(v.device);
    for (BufferRef& b : p->constants) b = copy_from_host(gpu(b->device().index), b->data(), b->bytes());
    for (exec::Instruction& i : p->instructions)
      if (i.kernel) i.kernel = Launch::later(i.kernel);
    return p;
  }
  // The graph's outputs, then its Variables, after a call.
  static std::vector<Tensor> run(const std::shared_ptr<const exec::Program>& program, const RandomGraph& g) {
    Launch::failed = false;
    Resources resources;
    for (const auto& [r, value] : g.resources) resources.emplace(r, value.clone());
    std::vector<Tensor> results = run_compiled(program, g.graph, g.inputs, &resources);
    for (const auto& [r, value] : resources) results.push_back(value);
    if (Launch::failed) results.clear();
    return results;
  }

  FakeCuda& fake = FakeCuda::now();
  std::unique_ptr<cuda::CudaBackend> backend;
};

INSTANTIATE_TEST_SUITE_P(Parts, SeveralGpus, testing::Values(1, 2, 4));

TEST_P(SeveralGpus, HaveNamesSharesAndStreamsOfTheirOwn) {
  const int parts = GetParam();
  ASSERT_EQ(backend->device_count(), kDevices);
  std::set<void*> streams;
  for (int i = 0; i < kDevices; ++i) {
    const std::string name = parts == 1 ? cat("gpu:", i) : cat("gpu:", i / parts, "/", i % parts);
    EXPECT_EQ(text(gpu(i)), name);
    EXPECT_EQ(parse_device(name), gpu(i));
    const DeviceProperties p = backend->properties(gpu(i));
    EXPECT_EQ(p.memory, (int64_t{80} << 30) / parts);
    EXPECT_EQ(p.multiprocessors, 132 / parts);
    EXPECT_EQ(gpu_number(gpu(i)), i / parts);
    streams.insert(backend->default_stream(gpu(i)).native);
    FakeCuda::now().calls.clear();
    backend->create_stream(gpu(i));
    EXPECT_EQ(FakeCuda::now().calls, std::vector<std::string>{cat("stream_create on ", i / parts)});
  }
  EXPECT_EQ(streams.size(), size_t(kDevices));
  EXPECT_EQ(backend->device_id(gpu(0)) == backend->device_id(gpu(1)), parts > 1);
  EXPECT_THROW(backend->default_stream(gpu(kDevices)), Error);
  EXPECT_EQ(parse_device("gpu:1"), gpu(parts));
  EXPECT_THROW(parse_device(cat("gpu:0/", parts)), Error);
  EXPECT_THROW(parse_device("gpu:0/x"), Error);
  // Now they are in use.
  EXPECT_NO_THROW(split_gpus(parts));
  EXPECT_THROW(split_gpus(parts + 1), Error);
  EXPECT_THROW(split_gpus(0), Error);
  EXPECT_THROW(split_gpus(17), Error);
}

TEST_P(SeveralGpus, EagerCopiesWaitForTheSourceAndItsMemoryOutlivesThem) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    fake.work.random.seed(seed);
    const std::vector<char> bytes(1000, char(seed));
    BufferRef there = copy_from_host(gpu(0), bytes.data(), bytes.size());
    for (int i = 1; i < kDevices; ++i) there = copy_to(gpu(i), there, bytes.size());
    there = copy_to(gpu(0), there, bytes.size());
    std::vector<char> back(1000);
    copy_to_host(back.data(), there, 0, 1000);
    ASSERT_EQ(back, bytes) << "seed " << seed;
  }
}

TEST_P(SeveralGpus, RandomGraphsGiveTheBitsOfOneDeviceAndAMissingWaitIsFound) {
  const int graphs = random_graph_count(20);
  const uint64_t first = random_graph_seed(91000);
  int several = 0, tried = 0, found = 0;
  for (int i = 0; i < graphs && !HasFailure(); ++i) {
    RandomGraph g = random_graph(first + uint64_t(i), {.least_nodes = 20, .most_nodes = 90});
    if (i % 2) g.graph = passes::optimize(g.graph).graph;
    std::mt19937_64 chance(g.seed);
    Resources resources;
    for (const auto& [r, value] : g.resources) resources.emplace(r, value.clone());
    compile::Options options;
    options.sections = i % 3 == 0;
    std::vector<Tensor> expected = run_program(g.graph, g.inputs, &resources, options, 1);
    for (const auto& [r, value] : resources) expected.push_back(value);
    for (int d = 0; d < kDevices; ++d) options.candidates.push_back(cpu(d));
    options.streams = 1 + i % 2, options.share_all_streams = true;
    for (size_t v = 0; v < g.graph.resources.size(); ++v) options.variable_devices.push_back(cpu(int(chance() % kDevices)));
    for (size_t v = 0; v < g.inputs.size(); ++v) options.input_devices.push_back(cpu(int(chance() % kDevices)));
    ir::Graph placed;
    placed.resources = g.graph.resources;
    for (int n = 0; n < g.graph.size(); ++n) {
      ir::Node node = g.graph[n];
      if (node.op != &ops::def::input && ir::resource_of(node) < 0) node.device = cpu(int(chance() % kDevices));
      placed.copy(node, node.inputs);
    }
    placed.inputs = g.graph.inputs, placed.outputs = g.graph.outputs;
    const exec::Program planned = *compile::compile(placed, options);
    if (planned.host_effects || planned.devices.size() < 2) continue;
    ++several;
    SCOPED_TRACE(g.seed);
    for (unsigned seed = 0; seed < 4; ++seed) {
      fake.work.random.seed(seed);
      ASSERT_TRUE(same_bits(run(on_gpus(planned), g), expected)) << describe(g) << exec::print(planned);
    }
    exec::Program without = planned;  // proves that this can fail
    for (exec::Instruction& instruction : without.instructions) instruction.wait_for.clear();
    bool wrong = false;
    for (unsigned seed = 0; seed < 8 && !wrong; ++seed) {
      fake.work.random.seed(seed);
      wrong = !same_bits(run(on_gpus(without), g), expected);
    }
    found += wrong, ++tried;
    fake.work.finish_all();  // also what nobody waits for: it reads the launches
    Launch::all().clear();
  }
  EXPECT_GE(several, graphs / 3);
  EXPECT_GE(found, tried / 2);
  std::printf("%d random graphs on 4 fake GPUs in parts of %d, seeds from %s; of %d without events %d were found\n", several, GetParam(),
              std::to_string(first).c_str(), tried, found);
}

// As perf/gpu/parts.py: half of the work could move, but 50 weights would be copied there and back.
TEST_P(SeveralGpus, TowersWhoseWeightsAreOnOneDeviceStayThere) {
  cuda_backend();  // opens the library with the kernels
  replace_backend(DeviceKind::gpu, backend.get());
  ir::Graph g;
  g.place.device = kAutomatic;
  const TensorType type{DType::f32, {64, 64}};
  const ir::Value x = g.add_input(type);
  std::vector<ir::Value> weights, ends;
  for (int t = 0; t < 2; ++t) {
    ir::Value y = x;
    for (int i = 0; i < 50; ++i) {
      weights.push_back(ops::read(g, g.add_resource({cat("w", t, "_", i), type})));
      y = ops::tanh(g, ops::matmul(g, y, weights.back()));
    }
    ends.push_back(y);
  }
  const std::vector<int64_t> axes{0, 1};
  const std::vector<ir::Value> loss{ops::mean(g, ops::square(g, ops::sub(g, ends[0], ends[1])), axes)};
  const std::vector<ir::Value> gradients =
      autodiff::gradient(g, {.targets = loss, .cotangents = {}, .sources = weights, .first_node = 0, .blocks = {}});
  const ir::Value rate = ops::scalar(g, DType::f32, 0.001);
  for (size_t i = 0; i < weights.size(); ++i) ops::assign(g, int(i), ops::sub(g, weights[i], ops::mul(g, gradients[i], rate)));
  g.outputs = loss;
  const cost::Costs costs{cost::CpuRates{}};
  compile::Options options{.device = gpu(0), .input_devices = {gpu(0)}};
  options.variable_devices.assign(weights.size(), gpu(0));
  options.candidates = {gpu(0), gpu(1)};
  options.costs = &costs;
  const auto program = compile::compile(passes::optimize(g).graph, options);
  std::string text;
  for (const exec::Candidate& c : program->candidates) text += cat(c.name, ": ", c.microseconds, " us, ", c.why, "\n");
  for (const exec::Instruction& i : program->instructions)
    EXPECT_EQ(program->streams[size_t(i.stream)].device, gpu(0)) << i.name << "\n" << text;
  const auto alone = compile::compile(compile::on_one_device(passes::optimize(g).graph, gpu(0)), options);
  EXPECT_EQ(exec::print(*program), exec::print(*alone)) << "the schedule's order would cut the chains";
}

}  // namespace
}  // namespace lamina::tests
