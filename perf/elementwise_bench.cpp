// How near elementwise work comes to the memory's speed: chains of ops as one traced function, against a plain copy of as many bytes in
// the same process. Each result has `x_copy`, its time over the copy's, and the bytes per second that it reads and writes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>

#include "graph/frontend/typed_function.h"
#include "graph/functions/op_functions.h"
#include "runtime/core/config.h"

namespace lamina::perf {
namespace {

constexpr int64_t kCount = int64_t(1) << 24;  // floats: 64 MiB, more than caches hold

double seconds_of(const std::function<void()>& f, int times) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// One thread's copy, into memory that has been written before.
double copy_seconds() {
  static const double best = [] {
    auto from = std::make_unique<float[]>(size_t(kCount)), to = std::make_unique<float[]>(size_t(kCount));
    for (int64_t i = 0; i < kCount; ++i) from[size_t(i)] = float(i);
    return seconds_of([&] { std::memcpy(to.get(), from.get(), size_t(kCount) * sizeof(float)), benchmark::ClobberMemory(); }, 8);
  }();
  return best;
}

Tensor one_op(Tensor x) { return x + 1; }
// Eight ops that take little time each.
Tensor eight_ops(Tensor x) {
  Tensor y = relu(x * 1.5 + 0.5);
  return maximum(abs(y - x) * 0.25, x) - y;
}
// Eight of which four are polynomials.
Tensor eight_long_ops(Tensor x) { return exp(x * 0.5) * tanh(x) + sigmoid(x) / (gelu(x) + 2); }
Tensor many_functions(Tensor x) { return sin(x) + cos(x) * erf(x); }
Tensor one_power(Tensor x) { return pow(x, 2.5); }

void chain(benchmark::State& state, Tensor (*f)(Tensor)) {
  config::set_threads(int(state.range(0)));
  auto run = function([f](Tensor x) { return f(x); });
  Tensor x = div(Operand(astype(arange(kCount), DType::f32)), Operand(double(kCount)));
  run(x);
  double best = 1e9;
  for (auto _ : state) best = std::min(best, seconds_of([&] { benchmark::DoNotOptimize(run(x).data()); }, 1));
  state.counters["x_copy"] = best / copy_seconds();
  state.SetBytesProcessed(int64_t(state.iterations()) * kCount * 8);
}

BENCHMARK_CAPTURE(chain, one_op, one_op)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(chain, eight_ops, eight_ops)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(chain, eight_long_ops, eight_long_ops)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(chain, many_functions, many_functions)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(chain, one_power, one_power)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lamina::perf
