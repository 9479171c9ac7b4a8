#include "graph/cost/costs.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "graph/cost/predict.h"
#include "kernels/section/table.h"
#include "runtime/core/error.h"
#include "runtime/device/backend.h"
#include "runtime/device/peak_flops.h"
#include "runtime/device/virtual_gpus.h"

namespace lamina::cost {
namespace {

// Products of 64 columns, at batch 64 and with their activations, reach about this share of a core's measured peak (perf/two_towers.py).
constexpr double kShareOfPeak = 0.65;

// GPUs. Arithmetic and memory: vendor figures of boost clock, lanes and bandwidth for an H100; other cards in proportion of their
// multiprocessors. A launch inside a CUDA graph and a step of a section: the figures of predict.cpp.
constexpr double kGpuFlopsPerMultiprocessor = 2 * 128 * 1.98e3 * 0.5, kGpuBytes = 3.35e6 * 0.7;  // per microsecond, at a usual share
constexpr double kGpuStep = 0.5;

// A copy from or to a GPU is a call of its own, outside of CUDA graphs. On an H200 a step on two logical devices, with 254 copies and
// launches more than on one, took 1,211 us longer: perf/gpu/parts.py when all its updates ran on the first device.
constexpr double kCopyMicroseconds = 5;
// The program that waits for another device's is launched by itself: 9 us on an H200 until the host has done it.
constexpr double kSeparateLaunchMicroseconds = 9;

// Links, per direction. NVLink: vendor bandwidth (600, 900 and 1,800 GB/s in both directions together) at four fifths; a write is seen
// after 1.8 to 2.3 us (NVIDIA/cuda-samples, issue 230), an event's record and wait are added. PCI Express: 16 lanes of generation 4 or 5.
constexpr Link kNvlink3{"NVLink 3", 2.3 + kEventMicroseconds, 240e3}, kNvlink4{"NVLink 4", 2.3 + kEventMicroseconds, 360e3},
    kNvlink5{"NVLink 5", 2.3 + kEventMicroseconds, 720e3};
constexpr Link kPcie4{"PCIe 4", 8 + kEventMicroseconds, 25e3}, kPcie5{"PCIe 5", 8 + kEventMicroseconds, 50e3};

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

// Bytes read and written per microsecond, in the caches where small layers are.
double copy_rate() {
  constexpr size_t bytes = 256 << 10;
  std::vector<char> from(bytes, 1), to(bytes);
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
    best = std::min(best, microseconds_since(start));
  }
  return 2 * double(bytes) / std::max(best, 0.1);
}

// Half of the time from a launch on an idle stream until its end is seen here.
double hand_over() {
  static const Kernel& nothing = *new Kernel{[](const KernelCall&) {}, nullptr};
  Backend& backend = cpu_backend();
  Stream stream = backend.create_stream({});
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    backend.launch(stream, nothing, {stream, nullptr, {}, {}}, "nothing");
    backend.synchronize(stream);
    times.push_back(microseconds_since(start) / 2);
  }
  backend.destroy_stream(stream);
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return std::clamp(times[7], 1.0, 100.0);
}

CpuRates measured() {
  CpuRates out;
  out.flops = peak_flops(0.004) * 1e-6 * kShareOfPeak;
  out.bytes = copy_rate();
  out.hand_over = hand_over();
  return out;
}

}  // namespace

const Costs& Costs::here() {
  static const Costs& costs = *new Costs(measured());
  return costs;
}

double Costs::launch(Device device) const { return device.kind == DeviceKind::cpu ? cpu_.launch : kLaunchMicroseconds; }

double Costs::microseconds(const Work& work, Device device, int threads) const {
  if (device.kind == DeviceKind::cpu) {
    const double each = cpu_.step + (threads > 1 ? cpu_.barrier : 0);
    return work.steps * each + std::max(work.flops / (cpu_.flops * threads), work.bytes / (cpu_.bytes * threads));
  }
  const double multiprocessors = std::max(1, backend_of(device).properties(device).multiprocessors);
  return work.steps * kGpuStep + std::max(work.flops / (kGpuFlopsPerMultiprocessor * multiprocessors), work.bytes / kGpuBytes);
}

Link Costs::link(Device from, Device to) const {
  if (from == to) return {"no link", 0, 1e12};
  const bool cpu_from = from.kind == DeviceKind::cpu, cpu_to = to.kind == DeviceKind::cpu;
  if (cpu_from && cpu_to) return {"memory", cpu_.hand_over, cpu_.bytes};
  if (share_a_card(from, to)) return {"the card's memory", kEventMicroseconds + kSeparateLaunchMicroseconds, kGpuBytes};
  const DeviceProperties card = backend_of(cpu_from ? to : from).properties(cpu_from ? to : from);
  const int parts = (cpu_from ? to : from).kind == DeviceKind::gpu ? gpu_parts() : 1;
  const bool data_center = card.multiprocessors * parts > 100 && (card.memory * parts >> 30) >= 70;  // A100 80 GB, H100, H200, B200
  if (!cpu_from && !cpu_to && data_center)
    return card.compute_capability >= 100 ? kNvlink5 : card.compute_capability >= 90 ? kNvlink4 : kNvlink3;
  return card.compute_capability >= 90 ? kPcie5 : kPcie4;
}

double Costs::copy(Device from, Device to, double bytes) const {
  const bool on_host = from.kind == DeviceKind::cpu && to.kind == DeviceKind::cpu;
  return (on_host ? cpu_.launch : kCopyMicroseconds) + bytes / link(from, to).bytes;
}

double Costs::microseconds(const exec::Program& program, const exec::Instruction& instruction) const {
  const Device device = program.streams[size_t(instruction.stream)].device;
  if (!instruction.kernel) return copy(program.streams[size_t(instruction.source_stream)].device, device, instruction.bytes / 2);
  if (device.kind != DeviceKind::cpu)
    if (const std::optional<double> known = predicted_microseconds(program, instruction)) return *known;
  const Work work{instruction.flops, instruction.bytes, std::max(1, instruction.section_steps)};
  return launch(device) + microseconds(work, device, threads_of(program, instruction));
}

std::string Costs::text() const {
  const auto round = [](double x) { return double(int64_t(x * 10 + 0.5)) / 10; };
  return cat("one core: ", round(cpu_.flops * 1e-3), " GFLOP/s in small products, ", round(cpu_.bytes * 1e-3), " GB/s, ",
             round(cpu_.hand_over), " us until another thread starts");
}

int threads_of(const exec::Program& program, const exec::Instruction& instruction) {
  const Device device = program.streams[size_t(instruction.stream)].device;
  if (device.kind != DeviceKind::cpu || instruction.section_steps == 0) return 1;
  return std::max(1, static_cast<const section::Table*>(instruction.kernel.args.get())->threads);
}

}  // namespace lamina::cost
