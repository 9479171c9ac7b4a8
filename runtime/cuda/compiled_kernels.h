// Kernels that are compiled behind the program's back. What wants one asks on every launch, and runs a slower kernel until there is one.
// The first request for a key counts only: what runs once is not worth compiling.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "runtime/core/mutex.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/device/device.h"

namespace lamina::cuda {

class CompiledKernels {
 public:
  // Machine code for a source and an architecture; called on a thread of this object's. What it throws means that there is no kernel.
  using Compile = std::function<std::string(const Source&, int architecture)>;
  CompiledKernels(const CudaApi& api, Compile compile) : api_(api), compile_(std::move(compile)) {}
  ~CompiledKernels() { stop(); }
  CompiledKernels(const CompiledKernels&) = delete;

  // The kernel of `key` on the device, which is current; null while there is none. make() is called once per key, before it is compiled.
  cudaKernel_t find(Device device, int architecture, const std::string& key, const std::function<Source()>& make);
  // Until everything asked for is compiled, or has failed.
  void wait();
  // Compiles nothing more, after what is being compiled: for the end of the process, before the compiler's library goes.
  void stop();
  // Grows when a kernel has become ready: what recorded a slower one may record again.
  unsigned version() const { return version_.load(std::memory_order_relaxed); }
  // Why there is no kernel of a key: "" while it is not known.
  std::string why_missing(const std::string& key);

 private:
  struct Entry {
    int asked = 0;
    bool queued = false;
    std::string name, code, failure;
    std::map<int, cudaKernel_t> kernels;  // by device; null where loading failed
  };
  struct Work {
    Entry* entry;
    Source source;
    int architecture;
  };
  void serve();

  const CudaApi& api_;
  const Compile compile_;
  Mutex mutex_;
  Condition changed_;
  std::map<std::pair<int, std::string>, Entry> entries_;  // by architecture and key; never moved
  std::deque<Work> work_;
  std::atomic<unsigned> version_{0};
  bool stop_ = false, busy_ = false;
  std::thread worker_;
};

}  // namespace lamina::cuda
