// CPU kernels as launches of a fake GPU, which runs them later, in any order that streams and events allow.
#pragma once
#include <deque>

#include "runtime/device/backend.h"
#include "tests/cuda/fake_cuda.h"

namespace lamina::tests {

struct Launch {
  Kernel kernel;
  std::vector<View> in, out;

  static inline bool failed = false;  // as for an index out of range, where there was no event to wait for it
  // Never moved, and kept as long as graphs may replay them.
  static std::deque<Launch>& all() {
    static std::deque<Launch> launches;
    return launches;
  }
  static void run(cuda::FakeArguments& a) {
    const Launch& launch = *static_cast<Launch*>(a.data[0]);
    std::vector<const View*> in, out;
    for (const View& v : launch.in) in.push_back(&v);
    for (const View& v : launch.out) out.push_back(&v);
    Stream stream = cpu_backend().default_stream({});
    try {
      launch.kernel.run({stream, launch.kernel.args.get(), in, out});
    } catch (const Error&) {
      failed = true;
    }
  }
  static void start(const KernelCall& call) {
    Launch& launch = all().emplace_back(Launch{*static_cast<const Kernel*>(call.args), {}, {}});
    for (const View* v : call.in) launch.in.push_back(*v);
    for (const View* v : call.out) launch.out.push_back(*v);
    cuda::FakeArguments arguments{.data = {&launch}};
    void* pointers[] = {&arguments};
    cudaLaunchConfig_t config{};
    config.stream = static_cast<cudaStream_t>(call.stream.native);
    cuda::fake_api().launch(&config, reinterpret_cast<const void*>(&run), pointers);
  }
  // The same kernel, started so.
  static Kernel later(const Kernel& kernel) { return {.run = start, .args = std::make_shared<Kernel>(kernel)}; }
};

}  // namespace lamina::tests
