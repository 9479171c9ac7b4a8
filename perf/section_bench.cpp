// How close sections come to the arithmetic floor: 100 layers of width to width, forward and a whole training step (backward and SGD),
// built directly as tables. Each result has `x_floor`, its time over the time that the multiplications and additions alone would take
// on one core; the floor is measured in the same process, so that the machine's clock cancels.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "kernels/section/table.h"
#include "runtime/core/config.h"
#include "runtime/device/backend.h"
#include "runtime/device/peak_flops.h"

namespace lamina::perf {
namespace {

using section::Activation;
using section::Broadcast;
using section::Operand;
using section::Partition;
using section::Step;
using section::StepKind;

constexpr int kLayers = 100;

struct Net {
  int rows, width;
  section::Table table;
  std::vector<section::OperandRange> ranges;
  std::vector<size_t> offsets;  // floats
  size_t floats = 0;
  int inputs = 0;
  void* memory = nullptr;
  std::vector<View> views;
  std::vector<const View*> operands;

  int buffer(size_t count) { return place(floats, count, true); }
  int place(size_t offset, size_t count, bool grow) {
    offsets.push_back(offset);
    ranges.push_back({0, int64_t(offset * 4), int64_t((offset + count) * 4)});
    if (grow) floats = (offset + count + 15) / 16 * 16;
    return int(offsets.size()) - 1;
  }
  Step& add(StepKind kind, Partition partition, std::vector<Operand> ins, std::vector<Operand> outs) {
    Step s;
    s.kind = kind, s.partition = partition, s.rows = rows, s.k = s.n = width;
    s.first_in = int32_t(table.operands.size()), s.ins = int32_t(ins.size());
    table.operands.insert(table.operands.end(), ins.begin(), ins.end());
    s.first_out = int32_t(table.operands.size()), s.outs = int32_t(outs.size());
    table.operands.insert(table.operands.end(), outs.begin(), outs.end());
    table.steps.push_back(s);
    return table.steps.back();
  }

  Net(int batch, int layer_width, int threads, bool train) : rows(batch), width(layer_width) {
    const size_t matrix = size_t(width) * size_t(width), act = size_t(rows) * size_t(width);
    const int x = buffer(act), dz_last = buffer(act), rate = buffer(1);
    std::vector<int> w, b, a{x}, new_w, new_b;
    for (int l = 0; l < kLayers; ++l) w.push_back(buffer(matrix)), b.push_back(buffer(size_t(width)));
    inputs = int(offsets.size());
    for (int l = 0; l < kLayers; ++l) {
      a.push_back(train || l < 2 ? buffer(act)
                                 : place(offsets[size_t(a[size_t(l - 1)])], act, false));  // two in turn when nobody needs them later
      Step& s = add(StepKind::dense, Partition::rows, {{a[size_t(l)]}, {w[size_t(l)]}, {b[size_t(l)], Broadcast::row}}, {{a.back()}});
      s.activation = Activation::relu, s.has_bias = 1;
    }
    if (train) {
      table.codes.push_back(
          {.inputs = {DType::f32, DType::f32, DType::f32},
           .constants = {},
           .instructions = {{kernels::ScalarOp::mul, DType::f32, DType::f32, 2, 0}, {kernels::ScalarOp::sub, DType::f32, DType::f32, 1, 3}},
           .outputs = {4}});
      // With one thread two buffers take turns; with more, all threads first go down to the input, and one barrier is enough.
      std::vector<int> dz(kLayers, dz_last);
      auto descend = [&](int l) {
        Step& u = add(StepKind::dense_update, Partition::tiles,
                      {{a[size_t(l)]},
                       {dz[size_t(l)]},
                       {w[size_t(l)]},
                       {rate, Broadcast::scalar},
                       {b[size_t(l)], Broadcast::row},
                       {rate, Broadcast::scalar}},
                      {{place(offsets[size_t(w[size_t(l)])], matrix, false)},
                       {place(offsets[size_t(b[size_t(l)])], size_t(width), false), Broadcast::row}});
        u.code = u.code2 = 0;
        u.extras = 2, u.has_bias = 1;
      };
      for (int l = kLayers - 1; l >= 0; --l) {
        if (l > 0) {
          dz[size_t(l - 1)] = threads > 1 || l > kLayers - 3 ? buffer(act) : place(offsets[size_t(dz[size_t(l + 1)])], act, false);
          Step& g =
              add(StepKind::dense_grad_input, Partition::rows, {{dz[size_t(l)]}, {w[size_t(l)]}, {a[size_t(l)]}}, {{dz[size_t(l - 1)]}});
          g.activation = Activation::relu, g.has_mask = 1;
        }
        if (threads == 1) descend(l);
      }
      if (threads > 1)
        for (int l = 0; l < kLayers; ++l) descend(l);
    }
    table.threads = threads;
    table.flops = double(train ? 3 : 1) * 2 * kLayers * double(rows) * double(matrix);
    section::place_barriers(table, ranges);
    section::validate(table, ranges, inputs);

    Stream stream = cpu_backend().default_stream({});
    memory = cpu_backend().allocate(stream, floats * 4);
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0, 1);
    auto* values = static_cast<float*>(memory);
    for (size_t i = 0; i < floats; ++i) values[i] = normal(generator) * 0.17f;  // He: what goes in comes out about as large
    values[offsets[size_t(rate)]] = 1e-7f;
    for (size_t i = 0; i < offsets.size(); ++i)
      views.push_back(contiguous_view(values + offsets[i], {DType::f32, {(ranges[i].end - ranges[i].begin) / 4}}));
    for (const View& v : views) operands.push_back(&v);
  }
  ~Net() {
    Stream stream = cpu_backend().default_stream({});
    cpu_backend().free(stream, memory, floats * 4);
  }
  void run() {
    Stream stream = cpu_backend().default_stream({});
    kernels::cpu::run_section({stream, &table, std::span<const View* const>(operands).first(size_t(inputs)),
                               std::span<const View* const>(operands).subspan(size_t(inputs))});
  }
};

void section_layers(benchmark::State& state, bool train) {
  const int batch = int(state.range(0)), threads = int(state.range(1)), before = config::threads();
  config::set_threads(threads);
  {
    Net net(batch, 64, threads, train);
    double best = 1e9;
    for (auto _ : state) {
      auto begin = std::chrono::steady_clock::now();
      net.run();
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best = std::min(best, seconds);
      state.SetIterationTime(seconds);
    }
    const double peak = peak_flops();
    state.counters["best_us"] = best * 1e6;
    state.counters["floor_us"] = net.table.flops / peak * 1e6;
    state.counters["x_floor"] = best * peak / net.table.flops;
  }
  config::set_threads(before);
}
void section_forward(benchmark::State& state) { section_layers(state, false); }
void section_train(benchmark::State& state) { section_layers(state, true); }

void shapes(benchmark::internal::Benchmark* b) {
  for (int threads : {1, 2})
    for (int batch : {1, 20, 128, 1024}) b->Args({batch, threads});
  b->ArgNames({"batch", "threads"})->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(section_forward)->Apply(shapes);
BENCHMARK(section_train)->Apply(shapes);

}  // namespace
}  // namespace lamina::perf
