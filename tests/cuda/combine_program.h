// Programs of one small kernel, out = a x + b y, for the fake GPU: any steps on any streams, with the necessary events.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/exec/executor.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::cuda {

inline constexpr Device kGpu{.kind = DeviceKind::gpu, .model = 0, .index = 0};
inline constexpr Device kCpu{.kind = DeviceKind::cpu, .model = 0, .index = 0};
inline constexpr int64_t kCount = 16;
inline constexpr size_t kBytes = kCount * sizeof(float);
using Values = std::vector<float>;

// out = a x + b y, on any device.
struct Combine {
  float a = 1, b = 1;
  enum Manner { once, with_scratch, waiting, changing, slow } manner = once;
};
inline std::atomic<int> extra_launches{0};  // of `changing`

inline void combine(const float* x, const float* y, float* out, float a, float b) {
  for (int64_t i = 0; i < kCount; ++i) out[i] = x[i] * a + y[i] * b;
}
inline void combine_kernel(FakeArguments& k) {
  combine(static_cast<float*>(k.data[0]), static_cast<float*>(k.data[1]), static_cast<float*>(k.data[2]), float(k.number[0]),
          float(k.number[1]));
}
inline void start(Stream& stream, void* x, void* y, void* out, float a, float b) {
  FakeArguments arguments{.data = {x, y, out}, .number = {a, b}, .count = kCount};
  void* pointers[] = {&arguments};
  cudaLaunchConfig_t config{};
  config.stream = static_cast<cudaStream_t>(stream.native);
  fake_api().launch(&config, reinterpret_cast<const void*>(&combine_kernel), pointers);
}
inline void run_combine(const KernelCall& call) {
  const auto& args = *static_cast<const Combine*>(call.args);
  void *x = call.in[0]->data, *y = call.in[1]->data, *out = call.out[0]->data;
  if (args.manner == Combine::slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (call.stream.device.kind == DeviceKind::cpu)
    return combine(static_cast<float*>(x), static_cast<float*>(y), static_cast<float*>(out), args.a, args.b);
  if (args.manner == Combine::waiting) call.stream.backend->synchronize(call.stream);
  for (int i = 0; args.manner == Combine::changing && i < extra_launches; ++i) start(call.stream, x, y, y, 0, 1);  // changes nothing
  if (args.manner != Combine::with_scratch) return start(call.stream, x, y, out, args.a, args.b);
  void* scratch = call.stream.backend->allocate(call.stream, kBytes);
  start(call.stream, x, y, scratch, args.a, 0);
  start(call.stream, scratch, y, out, 1, args.b);
  call.stream.backend->free(call.stream, scratch, kBytes);
}

// A program of Combines over places: 0 and 1 are the inputs, 2 the result, others in the arena. The result is a Variable or an output.
struct Step {
  int x, y, out;
  Combine how;
  int stream = 0;
};
struct Case {
  std::vector<Step> steps;
  std::vector<Device> streams = {kGpu};
  bool variable = false, events = true;
  int places = 8;

  std::shared_ptr<exec::Program> program() const {
    auto p = std::make_shared<exec::Program>();
    const TensorType type{DType::f32, parse_type(cat("f32[", kCount, "]")).shape};
    p->inputs = {type, type};
    p->input_devices = {kGpu, kGpu};
    for (Device device : streams) p->streams.push_back({device});
    p->devices = {kGpu, kCpu};
    p->arena_bytes = {int64_t(kBytes) * places, int64_t(kBytes) * places};
    const auto place = [&](exec::StorageKind kind, int index, int64_t offset) {
      p->storages.push_back({kind, index, offset, int64_t(kBytes)});
      p->slots.push_back({int(p->slots.size()), 0, contiguous_view(nullptr, type)});
    };
    place(exec::StorageKind::input, 0, 0);
    place(exec::StorageKind::input, 1, 0);
    place(variable ? exec::StorageKind::variable : exec::StorageKind::output, 0, 0);
    for (int i = 3; i < places; ++i) place(exec::StorageKind::arena, on_cpu(i) ? 1 : 0, int64_t(kBytes) * i);
    if (variable) {
      p->variables.push_back({.name = "v", .type = type, .device = kGpu, .written = true});
    } else {
      p->outputs = {type};
      p->output_devices = {kGpu};
      p->output_slots = {2};
    }
    for (const Step& step : steps) {
      exec::Instruction i;
      i.name = cat("combine ", p->instructions.size());
      i.line = source_line("train.py", int(p->instructions.size()) + 1);
      i.stream = step.stream;
      i.outputs = {step.out};
      if (on_cpu(step.x) != on_cpu(step.out)) {  // a copy
        i.inputs = {step.x};
        i.source_stream = 1 - step.stream;
      } else {
        i.inputs = {step.x, step.y};
        i.kernel = {run_combine, std::make_shared<Combine>(step.how)};
      }
      p->instructions.push_back(i);
    }
    if (events) add_events(*p);
    return p;
  }
  bool on_cpu(int place) const { return streams.size() > 1 && streams[1] == kCpu && place >= places - 2; }

  // After the last instruction of every other stream that used the same place, if one of the two writes it.
  void add_events(exec::Program& p) const {
    for (size_t i = 0; i < steps.size(); ++i) {
      std::map<int, size_t> last;
      for (size_t j = 0; j < i; ++j) {
        const Step &a = steps[j], &b = steps[i];
        if (a.stream != b.stream && (a.out == b.x || a.out == b.y || a.out == b.out || a.x == b.out || a.y == b.out)) last[a.stream] = j;
      }
      for (auto [stream, j] : last) {
        if (p.instructions[j].signal < 0) p.instructions[j].signal = p.events++;
        p.instructions[i].wait_for.push_back(p.instructions[j].signal);
      }
    }
  }
  Values expected(const Values& x, const Values& y) const {
    std::vector<Values> at(static_cast<size_t>(places), Values(kCount));
    at[0] = x, at[1] = y;
    for (const Step& s : steps) {
      if (on_cpu(s.x) != on_cpu(s.out))
        at[size_t(s.out)] = at[size_t(s.x)];
      else
        combine(at[size_t(s.x)].data(), at[size_t(s.y)].data(), at[size_t(s.out)].data(), s.how.a, s.how.b);
    }
    return at[2];
  }
};

// The last step writes the result; every place is written before it is read.
inline Case random_case(unsigned seed, int streams, int steps = 12) {
  std::mt19937 random(seed);
  Case c;
  c.streams.assign(size_t(streams), kGpu);
  std::vector<int> written = {0, 1};
  for (int s = 0; s < steps; ++s) {
    const auto any = [&] { return written[random() % written.size()]; };
    const int out = s + 1 == steps ? 2 : 3 + int(random() % 5);
    c.steps.push_back({any(),
                       any(),
                       out,
                       {.a = float(random() % 3), .b = 0.5f, .manner = random() % 3 ? Combine::once : Combine::with_scratch},
                       int(random() % unsigned(streams))});
    if (std::find(written.begin(), written.end(), out) == written.end()) written.push_back(out);
  }
  return c;
}
inline Case chain(int length, Combine::Manner manner = Combine::once) {
  Case c;
  for (int s = 0; s < length; ++s) c.steps.push_back({s ? 3 : 0, 1, s + 1 == length ? 2 : 3, {.a = 2, .b = 1, .manner = manner}});
  return c;
}
inline Values values(float from) {
  Values v(kCount);
  for (int64_t i = 0; i < kCount; ++i) v[size_t(i)] = from + float(i);
  return v;
}
inline BufferRef on_gpu(const Values& v) { return copy_from_host(kGpu, v.data(), kBytes); }
inline Values on_host(const BufferRef& b) {
  Values v(kCount);
  copy_to_host(v.data(), b, 0, kBytes);
  return v;
}
inline Values call(exec::Executor& executor, const Values& x, const Values& y) {
  const BufferRef in[] = {on_gpu(x), on_gpu(y)};
  return on_host(executor.run(in, {})[0]);
}

}  // namespace lamina::cuda
