// Programs on a fake GPU that runs operations in any order allowed by streams, events and graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "runtime/cuda/cuda_backend.h"
#include "runtime/exec/executor.h"
#include "tests/cuda/combine_program.h"

namespace lamina::cuda {
namespace {

class CudaGraphs : public testing::Test {
 protected:
  CudaGraphs() {
    unsetenv("LAMINA_CUDA_GRAPHS");
    FakeCuda::reset();
    extra_launches = 0;
    replace_backend(DeviceKind::gpu, &backend);
  }
  ~CudaGraphs() override {
    replace_backend(DeviceKind::gpu, nullptr);
    unsetenv("LAMINA_CUDA_GRAPHS");
    fake.work.finish_all();
  }
  int times(const std::string& call) {
    return static_cast<int>(
        std::count_if(fake.calls.begin(), fake.calls.end(), [&](const std::string& c) { return c == call || c.starts_with(call + " "); }));
  }

  FakeCuda& fake = FakeCuda::now();
  CudaBackend backend{fake_api()};
};

TEST_F(CudaGraphs, MatchPlainLaunches) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Case c = random_case(seed, 1 + int(seed % 3));
    fake.calls.clear();
    fake.work.random.seed(seed);
    exec::Executor executor(c.program());
    for (int n = 0; n < 4; ++n) ASSERT_EQ(call(executor, values(float(n)), values(2)), c.expected(values(float(n)), values(2))) << n;
    EXPECT_EQ(times("graph_launch"), 3);
    EXPECT_GE(times("graph_instantiate"), 1);
  }
  EXPECT_TRUE(fake.work.executables.empty());
}

// Proves that the test above can fail.
TEST_F(CudaGraphs, MissingEventsChangeTheResult) {
  int wrong = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Case c = random_case(seed, 3);
    c.events = false;
    fake.work.random.seed(seed);
    exec::Executor executor(c.program());
    call(executor, values(0), values(2));
    wrong += call(executor, values(1), values(2)) != c.expected(values(1), values(2));
  }
  EXPECT_GE(wrong, 10);
}

TEST_F(CudaGraphs, OtherAddressesUpdateTheGraph) {
  Case c = chain(4, Combine::with_scratch);
  c.variable = true;
  exec::VariableState v{.mutex = {}, .buffer = nullptr, .type = {}, .device = kGpu, .name = "v"};
  v.type = c.program()->inputs[0];
  v.buffer = on_gpu(values(0));
  exec::VariableState* states[] = {&v};
  exec::Executor executor(c.program());
  const BufferRef y = on_gpu(values(3));
  std::vector<BufferRef> xs;
  for (int i = 0; i < 3; ++i) xs.push_back(on_gpu(values(float(i))));
  const auto run = [&](size_t i) {
    const BufferRef in[] = {xs[i], y};
    executor.run(in, states);
    EXPECT_EQ(on_host(v.buffer), c.expected(values(float(i)), values(3)));
  };
  const auto counts = [&] {
    return std::vector<int>{times("capture_begin"), times("graph_instantiate"), times("graph_update"), times("graph_launch")};
  };
  run(0);
  EXPECT_EQ(counts(), (std::vector<int>{0, 0, 0, 0})) << "what runs once";
  run(0), run(0);
  EXPECT_EQ(counts(), (std::vector<int>{1, 1, 0, 2}));
  run(1), run(2);
  EXPECT_EQ(counts(), (std::vector<int>{3, 1, 2, 4}));
  run(0), run(2), run(0), run(2);  // recurring addresses have their own graphs, so nothing more is recorded
  EXPECT_EQ(counts(), (std::vector<int>{4, 2, 2, 8}));
}

TEST_F(CudaGraphs, OtherLaunchesRebuildTheGraph) {
  const Case c = chain(3, Combine::changing);
  exec::Executor executor(c.program());
  std::vector<BufferRef> held;  // keeps addresses from being reused
  const auto run = [&](float from) {
    held.push_back(on_gpu(values(from))), held.push_back(on_gpu(values(1)));
    const BufferRef in[] = {held.end()[-2], held.end()[-1]};
    held.push_back(executor.run(in, {})[0]);
    EXPECT_EQ(on_host(held.back()), c.expected(values(from), values(1)));
  };
  run(0), run(1), run(2);
  const int made = times("graph_instantiate");
  EXPECT_EQ(made, 1);
  extra_launches = 1;
  run(3);
  EXPECT_EQ(times("graph_instantiate"), made + 1);
  EXPECT_EQ(fake.work.executables.size(), size_t(times("graph_instantiate") - times("graph_executable_destroy")));
  EXPECT_TRUE(fake.work.graphs.empty());
}

TEST_F(CudaGraphs, FallBackToPlainLaunchesAndKeepTheReason) {
  for (const char* failing : {"capture_begin", "capture_end", "graph_instantiate", "graph_launch", "waiting kernel"}) {
    SCOPED_TRACE(failing);
    const bool waits = std::string(failing) == "waiting kernel";
    const Case c = chain(4, waits ? Combine::waiting : Combine::once);
    exec::Executor executor(c.program());
    EXPECT_NE(executor.graphs().find("the 4 instructions from combine 0 to combine 3 are one cuda graph"), std::string::npos)
        << executor.graphs();
    if (!waits) fake.fail[failing] = cudaErrorNotSupported;
    for (int n = 0; n < 3; ++n) EXPECT_EQ(call(executor, values(float(n)), values(1)), c.expected(values(float(n)), values(1)));
    fake.fail.clear();
    EXPECT_NE(executor.graphs().find("one by one"), std::string::npos) << executor.graphs();
    EXPECT_NE(executor.graphs().find(waits ? "cudaErrorStreamCaptureUnsupported" : "cudaErrorNotSupported"), std::string::npos)
        << executor.graphs();
    fake.calls.clear();
    EXPECT_EQ(call(executor, values(5), values(1)), c.expected(values(5), values(1)));
    EXPECT_EQ(times("capture_begin"), 0) << "it is tried once";
    EXPECT_TRUE(fake.work.graphs.empty() && fake.work.executables.empty());
  }
}

TEST_F(CudaGraphs, ALaunchErrorNamesItsOwnInstruction) {
  const Case c = chain(4);
  exec::Executor executor(c.program());
  call(executor, values(0), values(1));
  const auto error = [&] {
    try {
      call(executor, values(9), values(1));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  fake.fail["graph_launch"] = cudaErrorIllegalAddress;
  EXPECT_NE(error().find("earlier launch"), std::string::npos) << error();
  EXPECT_EQ(error().find("train.py"), std::string::npos) << error();
  fake.fail = {{"launch", cudaErrorInvalidConfiguration}};
  EXPECT_NE(error().find("launch combine 0"), std::string::npos) << error();
  EXPECT_NE(error().find("train.py:1"), std::string::npos) << error();
  fake.fail.clear();
  EXPECT_EQ(call(executor, values(4), values(1)), c.expected(values(4), values(1)));
}

TEST_F(CudaGraphs, AreFreedWithTheirProgram) {
  const Case c = random_case(5, 2);
  backend.default_stream(kGpu);
  {
    exec::Executor executor(c.program());
    for (int n = 0; n < 3; ++n) call(executor, values(float(n)), values(1));
    EXPECT_GE(fake.work.executables.size(), 1u);
    EXPECT_GT(fake.used, 0u);
  }
  EXPECT_TRUE(fake.work.executables.empty() && fake.work.graphs.empty());
  EXPECT_EQ(fake.used, 0u);
}

TEST_F(CudaGraphs, AreNotMadeForTwoLaunchesOrWhenSwitchedOff) {
  for (const bool off : {false, true}) {
    if (off) setenv("LAMINA_CUDA_GRAPHS", "0", 1);
    const Case c = chain(off ? 6 : 2);
    exec::Executor executor(c.program());
    for (int n = 0; n < 4; ++n) EXPECT_EQ(call(executor, values(float(n)), values(1)), c.expected(values(float(n)), values(1)));
    EXPECT_EQ(times("capture_begin"), 0);
    EXPECT_EQ(executor.graphs(), "");
  }
}

TEST_F(CudaGraphs, EndWhereTheHostIsNeeded) {
  Case c;
  c.streams = {kGpu, kCpu};
  c.steps = {{0, 1, 3, {2, 1}}, {3, 1, 4, {2, 1}},
             {4, 0, 3, {1, 1}},                                       // a graph
             {3, 3, 6, {}, 1},  {6, 6, 7, {1, 1, Combine::slow}, 1},  // to the CPU, and work there
             {4, 4, 6, {}, 1},                                        // overwrites what the CPU is reading
             {7, 7, 5, {}, 0},  {5, 3, 4, {1, 2}},
             {4, 5, 3, {1, 1}}, {3, 4, 2, {1, 1}}};  // back: the copy is not part of the second graph
  exec::Executor executor(c.program());
  for (int n = 0; n < 4; ++n) EXPECT_EQ(call(executor, values(float(n)), values(1)), c.expected(values(float(n)), values(1)));
  EXPECT_EQ(times("graph_launch"), 6);
  const std::string text = executor.graphs();
  EXPECT_NE(text.find("the 3 instructions from combine 0 to combine 2"), std::string::npos) << text;
  EXPECT_NE(text.find("the 3 instructions from combine 7 to combine 9"), std::string::npos) << text;
}

TEST_F(CudaGraphs, AreOrderedWithPlainLaunchesOfOtherStreamsBeforeAndAfter) {
  Case c;
  c.streams = {kGpu, kCpu, kGpu};
  c.steps = {{0, 1, 3, {2, 1}, 2}, {3, 1, 4, {2, 1}, 2},  // too few for a graph
             {0, 0, 6, {}, 1},     {6, 6, 7, {1, 1}, 1}, {7, 7, 5, {}, 0},
             {4, 5, 3, {1, 2}, 0}, {3, 4, 4, {1, 1}, 0}, {4, 3, 4, {1, 1}, 0},   // a graph that depends on them
             {1, 1, 6, {}, 1},     {4, 5, 3, {1, 1}, 2}, {3, 4, 2, {1, 1}, 2}};  // and two that depend on it
  for (unsigned seed = 0; seed < 20; ++seed) {
    fake.work.random.seed(seed);
    exec::Executor executor(c.program());
    for (int n = 0; n < 3; ++n) EXPECT_EQ(call(executor, values(float(n)), values(1)), c.expected(values(float(n)), values(1)));
  }
  EXPECT_EQ(times("graph_launch"), 40);
}

TEST_F(CudaGraphs, RunInTheOrderOfTheirFirstStream) {
  Stream streams[] = {backend.create_stream(kGpu), backend.create_stream(kGpu)};
  const BufferRef a = on_gpu(values(1)), b = on_gpu(values(2)), out = on_gpu(values(3));
  std::unique_ptr<LaunchGraph> graph = backend.launch_graph(kGpu);
  void* const addresses[] = {a->data(), b->data()};
  for (unsigned n = 0; n < 40; ++n) {
    for (const BufferRef& buffer : {a, b, out}) {
      Stream stream = backend.default_stream(kGpu);
      backend.copy(stream, buffer->data(), values(1).data(), kBytes, CopyKind::to_device);
      backend.synchronize(stream);
    }
    start(streams[0], a->data(), a->data(), a->data(), 1, 1);                                                            // a = 2 a
    graph->run(streams, addresses, [&](std::span<Stream> on) { start(on[1], a->data(), a->data(), b->data(), 1, 2); });  // b = 3 a
    start(streams[0], b->data(), b->data(), out->data(), 1, 1);                                                          // out = 2 b
    backend.synchronize(streams[0]);
    ASSERT_EQ(on_host(out)[0], 12) << n;
  }
  graph.reset();
  for (Stream& stream : streams) backend.destroy_stream(stream);
}

TEST_F(CudaGraphs, ServeTwoThreads) {
  const Case c = random_case(8, 2);
  exec::Executor executor(c.program());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (int n = 0; n < 30; ++n) {
        const Values x = values(float(100 * t + n));
        try {
          wrong += call(executor, x, values(1)) != c.expected(x, values(1));
        } catch (const Error& e) {
          ADD_FAILURE() << e.what();
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(times("graph_launch"), 50);
}

// Every call fails in turn: a typed error or the right values, nothing leaks, and the program works afterwards.
TEST_F(CudaGraphs, SurviveEveryCallFailingInTurn) {
  const Case c = random_case(3, 2, 6);
  const auto everything = [&](exec::Executor& executor) {
    for (int n = 0; n < 3; ++n) EXPECT_EQ(call(executor, values(float(n)), values(1)), c.expected(values(float(n)), values(1)));
  };
  int calls = 0;
  {
    exec::Executor executor(c.program());
    fake.calls.clear();
    everything(executor);
    calls = int(fake.calls.size());
    ASSERT_GE(times("graph_update") + times("graph_instantiate"), 2);
  }
  ASSERT_GT(calls, 50);
  for (int failing = 0; failing < calls; ++failing)
    for (const cudaError_t status : {cudaErrorMemoryAllocation, cudaErrorUnknown, cudaErrorIllegalAddress}) {
      std::string name;
      {
        exec::Executor executor(c.program());
        fake.calls.clear();
        fake.countdown = failing;
        fake.countdown_status = status;
        try {
          everything(executor);
        } catch (const Error& e) {
          EXPECT_TRUE(e.kind == ErrorKind::device || e.kind == ErrorKind::out_of_memory) << e.what();
          EXPECT_FALSE(e.parts.fix.empty()) << e.what();
        }
        fake.countdown = -1;
        name = failing < int(fake.calls.size()) ? fake.calls[size_t(failing)] : "";
        SCOPED_TRACE(cat(failing, ": ", name, ", ", cudaGetErrorName(status)));
        try {  // errors of free are kept for the next wait
          Stream stream = backend.default_stream(kGpu);
          backend.synchronize(stream);
        } catch (const Error&) {
        }
        EXPECT_NO_THROW(everything(executor));
      }
      SCOPED_TRACE(cat(failing, ": ", name, ", ", cudaGetErrorName(status)));
      const auto was = [&](const char* call) { return name.starts_with(call); };
      EXPECT_TRUE(was("graph_destroy") || fake.work.graphs.empty());
      EXPECT_TRUE(was("graph_executable_destroy") || fake.work.executables.empty());
      EXPECT_TRUE(was("free_to_pool") || fake.used == 0u) << fake.used;
      fake.work.graphs.clear();
      fake.work.executables.clear();
      fake.used = 0;
      if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace lamina::cuda
