// Tests that need a card: all ops' kernels against double precision. perf/gpu/run.sh runs them; elsewhere they are skipped with a reason.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/compile/compile.h"
#include "graph/ops/ops.h"
#include "runtime/exec/executor.h"
#include "tests/ops/card_case.h"

namespace lamina::tests {
namespace {

TEST(OnACard, TheKernelsOfAllOpsAgreeWithDoublePrecision) {
  Backend& backend = cuda_backend();
  if (backend.device_count() == 0) GTEST_SKIP() << backend.unavailable_reason();
  const int launches = check_all_on_card(backend);
  EXPECT_GT(launches, 500);
  std::printf("%d launches\n", launches);
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
