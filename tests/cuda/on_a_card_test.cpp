// Tests that need a card: all ops' kernels against double precision. perf/gpu/run.sh runs them; elsewhere they are skipped with a reason.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "graph/compile/compile.h"
#include "graph/ops/ops.h"
#include "runtime/dist/collectives.h"
#include "runtime/dist/over_devices.h"
#include "runtime/exec/executor.h"
#include "tests/ops/card_case.h"
#include "tests/runtime/dist/conformance.h"

namespace lamina::tests {
namespace {

TEST(OnACard, TheKernelsOfAllOpsAgreeWithDoublePrecision) {
  Backend& backend = cuda_backend();
  if (backend.device_count() == 0) GTEST_SKIP() << backend.unavailable_reason();
  if (const char* op = std::getenv("LAMINA_TEST_OP")) {  // perf/gpu/kernels.py gives each op a process
    std::printf("%d launches\n", check_op_on_card(backend, op));
  } else {
    EXPECT_GT(check_all_on_card(backend), 500);
  }
}

// Thrust's calls within a CUDA graph: the second run is recorded, later ones replay the graph.
TEST(OnACard, SortsAreRecordedInAGraph) {
  if (cuda_backend().device_count() == 0) GTEST_SKIP() << cuda_backend().unavailable_reason();
  ir::Graph g;
  const ir::Value x = g.add_input(TensorType{DType::f32, {64, 257}}), places = ops::argsort(g, x, 1);
  g.outputs = {ops::sort(g, x, 1, true), places, ops::cumsum(g, places, 1)};
  std::vector<float> values(64 * 257);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i * 7919 % 61);
  std::string graphs;
  const auto results = [&](DeviceKind kind) {
    const Device device{.kind = kind, .model = 0, .index = 0};
    const auto program = compile::compile(g, {.device = device, .input_devices = {}, .variable_devices = {}});
    exec::Executor executor(program);
    std::vector<std::string> found;
    for (int times = 0; times < 4; ++times) {
      const std::vector<BufferRef> inputs{copy_from_host(device, values.data(), values.size() * sizeof(float))};
      const std::vector<BufferRef> outputs = executor.run(inputs, {});
      for (const BufferRef& out : outputs) copy_to_host(found.emplace_back(out->bytes(), ' ').data(), out, 0, out->bytes());
    }
    graphs = executor.graphs();
    return found;
  };
  const std::vector<std::string> wanted = results(DeviceKind::cpu);
  EXPECT_EQ(results(DeviceKind::gpu), wanted);
  EXPECT_EQ(graphs.find("one by one"), std::string::npos) << graphs;
}

// One rank: NCCL starts, moves bytes and ends; sums are our kernel's.
TEST(NcclOnACard, OneRankPassesTheConformanceSuiteAndHasTheTreesBits) {
  Backend& backend = cuda_backend();
  if (backend.device_count() == 0) GTEST_SKIP() << "not measured: " << backend.unavailable_reason();
  const Device device{DeviceKind::gpu, 0, 0};
  auto& joins = dynamic_cast<JoinsPeers&>(backend);
  std::string id;
  try {
    id = joins.peers_id();
  } catch (const Error& e) {
    GTEST_SKIP() << "not measured: " << e.what();
  }
  using namespace distributed;
  const auto ranks = join_over_devices(0, 1, device, id, Patience::of_settings());
  for (const auto& one : distributed::tests::conformance_cases()) EXPECT_EQ(one.run(*ranks), "") << one.name;
  const Place place(*ranks, nullptr, backend.default_stream(device));
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32})
    for (const int64_t count : {1, 1000, 416000}) {
      const std::vector<char> want = distributed::tests::expected_sum(dtype, count, 8),
                              leaves = distributed::tests::own_leaves(*ranks, dtype, count, 8);
      const BufferRef in = copy_from_host(device, leaves.data(), leaves.size()), out = std::make_shared<Buffer>(device, want.size());
      all_reduce(place, SumOf{dtype, count, 8}, in->data(), out->data());
      std::vector<char> got(want.size());
      copy_to_host(got.data(), out, 0, got.size());
      EXPECT_TRUE(got == want) << dtype << "[" << count << "]";
    }
}

// Without the libraries the other tests pass too, by our own kernels.
TEST(OnACard, CuBlasLtAndCuDnnAreFound) {
  Backend& backend = cuda_backend();
  if (backend.device_count() == 0) GTEST_SKIP() << backend.unavailable_reason();
  for (const LibraryReport& library : backend.libraries())
    if (library.name == "cuBLASLt" || library.name == "cuDNN") {
      EXPECT_NE(library.found, "") << library.why << "\nfix: " << library.fix;
    }
}

}  // namespace
}  // namespace lamina::tests
