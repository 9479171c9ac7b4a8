// The step that perf/gpu/wire.cpp measures on a card, on the fake one, whose kernels are only recorded.
#include "tests/cuda/one_of_many.h"

#include <gtest/gtest.h>

#include <map>

#include "graph/frontend/data_parallel.h"
#include "graph/frontend/device.h"
#include "graph/frontend/factories.h"
#include "graph/frontend/tape.h"
#include "graph/functions/op_functions.h"
#include "graph/nn/optimizer.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/dist/world.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {
namespace {

TEST(OneOfMany, LaunchesItsStepAndAWireBesideIt) {
  constexpr Device card{DeviceKind::gpu, 0, 0};
  constexpr int steps = 4;
  FakeCuda::reset();
  FakeCuda::now().only_records_kernels = true;
  FakeCuda::now().memory = size_t{64} << 20;
  CudaBackend backend(fake_api());
  replace_backend(DeviceKind::gpu, &backend);
  const section::BlockRunner* const product = section::block_runner();
  std::map<std::string, int> launches;
  {
    tests::Wire wire(card, 8);
    tests::OneOfMany job(8, wire);
    const distributed::RankScope scope(job);
    const DeviceScope on_card("gpu:0");
    const std::vector<Variable> w{Variable(full({16, 16}, 0.1))};
    optim::SGD sgd(0.1);
    auto step = distributed::data_parallel([&](Tensor x) {
      GradientTape tape;
      const Tensor cost = mean(square(matmul(x, w[0])));
      sgd.apply_gradients(tape.gradient(cost, w), w);
      return cost;
    });
    const Tensor x = full({20, 16}, 0.5);
    step(x);
    FakeCuda::now().calls.clear();
    for (int i = 0; i < steps; ++i) step(x);
    for (const std::string& call : FakeCuda::now().calls)
      if (call.starts_with("launch ")) ++launches[call];
    EXPECT_EQ(wire.missing(), 0u);
  }
  EXPECT_EQ(launches.size(), 2u) << "the section kernel of ranks and the wire";
  for (const auto& [kernel, times] : launches) EXPECT_EQ(times, steps) << kernel;
  EXPECT_EQ(section::block_runner(), product);
  replace_backend(DeviceKind::gpu, nullptr);
  FakeCuda::now().work.finish_all();
  FakeCuda::reset();
}

}  // namespace
}  // namespace lamina::cuda
