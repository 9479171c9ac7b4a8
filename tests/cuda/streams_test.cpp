// Plans with several streams on a fake GPU that runs work in any order allowed by streams, events and graphs. Its instructions are CPU
// kernels, so results must equal, bit for bit, those of the CPU on one stream.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/passes/pipeline.h"
#include "runtime/cuda/cuda_backend.h"
#include "tests/cuda/combine_program.h"
#include "tests/cuda/fake_launch.h"
#include "tests/graph/compile/branches.h"
#include "tests/graph/compile/run.h"
#include "tests/graph/random_graph.h"

namespace lamina::tests {
namespace {

using cuda::FakeCuda;
using cuda::kCpu;
using cuda::kGpu;

compile::Options options_of(int streams) {
  compile::Options options;
  options.sections = false;
  options.streams = streams;
  options.share_all_streams = true;
  return options;
}

// A plan for several streams of the CPU, moved to the GPU.
std::shared_ptr<exec::Program> on_gpu(const exec::Program& planned) {
  auto p = std::make_shared<exec::Program>(planned);
  for (auto* devices : {&p->input_devices, &p->output_devices, &p->devices}) devices->assign(devices->size(), kGpu);
  for (exec::StreamUse& s : p->streams) s.device = kGpu;
  for (exec::VariableUse& v : p->variables) v.device = kGpu;
  for (BufferRef& b : p->constants) b = copy_from_host(kGpu, b->data(), b->bytes());
  for (exec::Instruction& i : p->instructions) i.kernel = Launch::later(i.kernel);
  return p;
}

class CudaStreams : public testing::Test {
 protected:
  CudaStreams() {
    unsetenv("LAMINA_CUDA_GRAPHS");
    FakeCuda::reset();
    fake.memory = size_t{64} << 20;
    replace_backend(DeviceKind::gpu, &backend);
  }
  ~CudaStreams() override {
    fake.work.finish_all();
    replace_backend(DeviceKind::gpu, nullptr);
    Launch::all().clear();
  }
  // The graph's outputs, then its Variables, after this many calls; the first call uses other inputs, if given.
  std::vector<Tensor> run(const std::shared_ptr<const exec::Program>& program, const RandomGraph& g, int times,
                          const std::vector<Tensor>* others = nullptr) {
    calls.clear();
    Launch::failed = false;
    exec::Executor executor(program);
    std::vector<std::unique_ptr<exec::VariableState>> states;
    std::vector<exec::VariableState*> variables;
    for (size_t r = 0; r < g.graph.resources.size(); ++r) {
      states.push_back(std::make_unique<exec::VariableState>());
      states.back()->type = g.graph.resources[r].type, states.back()->name = g.graph.resources[r].name, states.back()->device = kGpu;
      if (const auto found = g.resources.find(int(r)); found != g.resources.end())
        states.back()->buffer = copy_from_host(kGpu, found->second.raw(), found->second.byte_count());
      variables.push_back(states.back().get());
    }
    std::vector<BufferRef> in, first, out;
    for (const Tensor& t : g.inputs) in.push_back(copy_from_host(kGpu, t.raw(), t.byte_count()));
    if (others)
      for (const Tensor& t : *others) first.push_back(copy_from_host(kGpu, t.raw(), t.byte_count()));
    for (int n = 0; n < times; ++n) {
      if (same_addresses) {
        while (!out.empty()) out.pop_back();  // the first one last: it is what is allocated next
        Stream stream = backend.default_stream(kGpu);
        backend.synchronize(stream);
      }
      const size_t before = fake.calls.size();
      out = executor.run(n == 0 && others ? first : in, variables);
      calls.emplace_back(fake.calls.begin() + int64_t(before), fake.calls.end());
    }
    std::vector<Tensor> results;
    const auto take = [&](const TensorType& type, const BufferRef& buffer) {
      results.emplace_back(type);
      copy_to_host(results.back().raw(), buffer, 0, results.back().byte_count());
    };
    for (size_t o = 0; o < out.size(); ++o) take(program->outputs[o], out[o]);
    for (const auto& state : states)
      if (state->buffer) take(state->type, state->buffer);
    if (Launch::failed) results.clear();
    return results;
  }
  static std::vector<Tensor> expected(const RandomGraph& g, int times) {
    Resources resources;
    for (const auto& [r, value] : g.resources) resources.emplace(r, value.clone());
    std::vector<Tensor> results = run_program(g.graph, g.inputs, &resources, options_of(1), times);
    for (const auto& [r, value] : resources) results.push_back(value);
    return results;
  }
  // Counts calls in the program's nth run.
  int count(size_t n, const std::string& name) {
    return int(std::count_if(calls.at(n).begin(), calls.at(n).end(),
                             [&](const std::string& c) { return c == name || c.starts_with(name + " "); }));
  }
  static RandomGraph branches(unsigned seed) {
    RandomGraph g;
    g.graph = two_branches(1, 4, 3);
    std::mt19937 random(seed);
    for (ir::Value v : g.graph.inputs) {
      Tensor& t = g.inputs.emplace_back(g.graph.type(v));
      for (int64_t i = 0; i < t.size(); ++i) t.set(i, double(random() % 64) / 32 - 1);
    }
    return g;
  }

  FakeCuda& fake = FakeCuda::now();
  bool same_addresses = false;                  // results are freed before each call
  std::vector<std::vector<std::string>> calls;  // cudart calls in each call of the last program
  cuda::CudaBackend backend{cuda::fake_api()};
};

TEST_F(CudaStreams, TwoBranchesAreOneGraph) {
  const RandomGraph g = branches(1);
  auto program = on_gpu(*compile::compile(g.graph, options_of(2)));
  ASSERT_EQ(program->streams.size(), 2u);
  same_addresses = fake.gives_again = true;
  EXPECT_TRUE(same_bits(run(program, g, 12), expected(g, 12)));
  // First plain launches: the streams fork and join, with an event at the end of the second branch. The recording has the same events.
  EXPECT_EQ(count(0, "event_record"), 3);
  EXPECT_EQ(count(0, "launch"), 5);
  EXPECT_EQ(count(1, "event_record"), 3);
  EXPECT_EQ(count(1, "capture_begin"), 1);
  int nothing_else = 0;  // calls whose addresses a recording has
  for (size_t n = 1; n < 12; ++n) {
    EXPECT_EQ(count(n, "graph_launch"), 1);
    nothing_else += count(n, "event_record") + count(n, "stream_wait") + count(n, "launch") == 0;
  }
  EXPECT_GE(nothing_else, 1) << "the graph has all events inside";
  for (size_t n = 0; n < 12; ++n) EXPECT_EQ(count(n, "stream_synchronize"), 0) << "a call waits for the device";
}

TEST_F(CudaStreams, EveryEventOfTwoBranchesIsNeeded) {
  const exec::Program planned = *compile::compile(two_branches(1, 4, 3), options_of(2));
  int waits = 0;
  for (size_t i = 0; i < planned.instructions.size(); ++i)
    for (size_t w = 0; w < planned.instructions[i].wait_for.size(); ++w, ++waits) {
      exec::Program without = planned;
      auto& list = without.instructions[i].wait_for;
      list.erase(list.begin() + int64_t(w));
      int plain = 0, graphs = 0;
      for (unsigned seed = 0; seed < 40; ++seed) {
        fake.work.random.seed(seed);
        const RandomGraph g = branches(seed);
        const std::vector<Tensor> others = branches(seed + 100).inputs;  // otherwise the last call's leftovers would be right
        const std::vector<Tensor> right = expected(g, 1);
        plain += !same_bits(run(on_gpu(without), g, 1), right);
        graphs += !same_bits(run(on_gpu(without), g, 2, &others), right);
      }
      EXPECT_GE(plain, 5) << "wait " << w << " of instruction " << i;
      EXPECT_GE(graphs, 5) << "wait " << w << " of instruction " << i;
    }
  EXPECT_GE(waits, 1);
}

TEST_F(CudaStreams, RandomGraphsGiveTheBitsOfOneStreamOfTheCpu) {
  const int graphs = random_graph_count(40);
  const uint64_t first = random_graph_seed(83000);
  int ran = 0, found = 0, tried = 0;
  for (int i = 0; i < graphs && !HasFailure(); ++i) {
    RandomGraph g = random_graph(first + uint64_t(i), {.least_nodes = 20, .most_nodes = 90});
    if (i % 2) g.graph = passes::optimize(g.graph).graph;
    const exec::Program planned = *compile::compile(g.graph, options_of(2 + i % 3));
    if (planned.host_effects || planned.streams.size() < 2) continue;
    ++ran;
    SCOPED_TRACE(g.seed);
    const std::vector<Tensor> right = expected(g, 4);
    for (unsigned seed = 0; seed < 4; ++seed) {
      fake.work.random.seed(seed);
      ASSERT_TRUE(same_bits(run(on_gpu(planned), g, 4), right)) << describe(g) << exec::print(planned);
    }
    exec::Program without = planned;  // proves that this can fail
    for (exec::Instruction& instruction : without.instructions) instruction.wait_for.clear();
    const std::vector<Tensor> first_call = expected(g, 1);
    bool wrong = false;
    for (unsigned seed = 0; seed < 8 && !wrong; ++seed) {
      fake.work.random.seed(seed);
      wrong = !same_bits(run(on_gpu(without), g, 1), first_call);
    }
    found += wrong, ++tried;
    fake.work.finish_all();  // also what nobody waits for: it reads the launches
    Launch::all().clear();
  }
  EXPECT_GE(ran, graphs / 2);
  EXPECT_GE(found, tried / 2);
  std::printf("%d random graphs on a fake GPU, seeds from %s; of %d without events %d were found\n", ran, std::to_string(first).c_str(),
              tried, found);
}

}  // namespace
}  // namespace lamina::tests
