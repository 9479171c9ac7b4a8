// lamina_bench: Google Benchmark on the C++ side. Every time is beside the machine's arithmetic floor, measured in the same process.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "graph/frontend/factories.h"
#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "perf/hundred_layers.h"
#include "runtime/device/peak_flops.h"

namespace lamina::perf {
namespace {

double smallest(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

// floor_us: what the arithmetic alone takes on one core; of_floor: how many times that an iteration took.
template <class Call>
void measure(benchmark::State& state, double flops, Call call) {
  call();
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) call();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(state.iterations());
  const double floor = flops / peak_flops();
  state.counters["floor_us"] = floor * 1e6;
  state.counters["of_floor"] = seconds / floor;
}

void forward(benchmark::State& state) {
  Benchmark net(state.range(0));
  measure(state, net.forward_flops(), [&] { net.forward(); });
}
void step(benchmark::State& state) {
  Benchmark net(state.range(0));
  measure(state, net.step_flops(), [&] { net.step(); });
}
void step_eager(benchmark::State& state) {
  Benchmark net(state.range(0));
  measure(state, net.step_flops(), [&] { net.step_eagerly(); });
}
void trace_and_compile(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto net = std::make_unique<Benchmark>(state.range(0));
    state.ResumeTiming();
    net->step();
    state.PauseTiming();
    net.reset();
    state.ResumeTiming();
  }
}
void cached_call(benchmark::State& state) {
  auto plus_one = function([](Tensor x) { return x + 1; });
  const Tensor x = ones({4});
  plus_one(x);
  for (auto _ : state) benchmark::DoNotOptimize(plus_one(x));
}
void eager_op(benchmark::State& state) {
  const Tensor x = ones({4});
  for (auto _ : state) benchmark::DoNotOptimize(x + x);
}

#define LAMINA_TIMED(name) BENCHMARK(name)->Repetitions(5)->ComputeStatistics("min", smallest)->ReportAggregatesOnly()->UseRealTime()
LAMINA_TIMED(forward)->Arg(1)->Arg(20)->Arg(128)->Unit(benchmark::kMicrosecond);
LAMINA_TIMED(step)->Arg(1)->Arg(20)->Arg(128)->Unit(benchmark::kMicrosecond);
BENCHMARK(step_eager)->Arg(20)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(trace_and_compile)->Arg(20)->Iterations(3)->Unit(benchmark::kMillisecond);
LAMINA_TIMED(cached_call)->Unit(benchmark::kNanosecond);
LAMINA_TIMED(eager_op)->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace lamina::perf
