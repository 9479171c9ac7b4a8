// FakeCuda: the state behind the calls of fake_cuda.h. FakeWork runs kernels, copies and graphs.
#pragma once
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/core/mutex.h"
#include "runtime/cuda/cuda_api.h"
#include "tests/cuda/fake_work.h"

namespace lamina::cuda {

struct FakeCuda {
  int driver = 13000, runtime = 13000, devices = 2;
  static inline thread_local int current = 0;
  cudaError_t count_status = cudaSuccess;
  bool has_pools = true;
  bool sticky = false;                // an error that ends the context is returned by every later call
  int resident_blocks = 1;            // per multiprocessor
  bool only_records_kernels = false;  // for nvcc's kernels, which cannot run on the host
  size_t memory = 1 << 20, used = 0, cached = 0;
  std::map<std::string, cudaError_t> fail;  // calls of this name always fail
  std::vector<std::string> calls;
  std::map<void*, size_t> blocks;
  bool gives_again = false;  // true: a freed block is reused at once, as in a pool; false: never, so that use after free is found
  std::map<size_t, std::vector<void*>> freed;
  int countdown = -1;  // so many calls succeed, the next fails with countdown_status
  cudaError_t countdown_status = cudaErrorUnknown;
  std::string failing_call;  // out of memory after so many calls of it
  int failing_after = -1;
  std::map<void*, std::shared_ptr<char[]>> pinned;
  std::map<void*, size_t> pinned_bytes;
  intptr_t handles = 0;
  FakeWork work;
  static inline thread_local cudaError_t last = cudaSuccess;

  static FakeCuda& now() {
    static FakeCuda fake;
    return fake;
  }
  // For several threads.
  struct Locked {
    struct Inside {
      Inside() { ++inside; }
      ~Inside() { --inside; }
    } counted = {};
    std::lock_guard<RecursiveMutex> lock;
    FakeCuda* operator->() const { return &now(); }
  };
  static inline thread_local int inside = 0;  // depth in calls of the fake, whose own work is not Lamina's
  static Locked lock() {
    static RecursiveMutex mutex;
    return {.lock = std::lock_guard(mutex)};
  }
  // A host thread waits; others go on meanwhile.
  template <class Done>
  static void wait_until(Done done) {
    for (const auto begun = std::chrono::steady_clock::now();;) {
      {
        const auto locked = lock();
        if (done()) return;
      }
      if (std::chrono::steady_clock::now() - begun > std::chrono::seconds(60)) throw std::logic_error("a wait for the fake GPU never ends");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  static void reset() {
    now().work.finish_all();
    for (const auto& [data, size] : now().blocks) std::free(data);
    for (const auto& [size, list] : now().freed)
      for (void* data : list) std::free(data);
    now() = FakeCuda{};
    current = 0;
    last = cudaSuccess;
  }

  cudaError_t call(const std::string& name, const std::string& detail = "") {
    calls.push_back(detail.empty() ? name : name + " " + detail);
    if (countdown >= 0 && countdown-- == 0) return last = countdown_status;
    if (name == failing_call && failing_after-- <= 0) return last = cudaErrorMemoryAllocation;
    const auto found = fail.find(name);
    if (found == fail.end()) return cudaSuccess;
    return last = found->second;
  }
  template <class T>
  cudaError_t make(const std::string& name, T* handle) {
    const cudaError_t status = call(name, cat("on ", current));
    if (status == cudaSuccess) *handle = reinterpret_cast<T>(++handles);
    return status;
  }
  cudaError_t take(void** data, size_t bytes) {
    if (used + cached + bytes > memory) return last = cudaErrorMemoryAllocation;
    if (auto& list = freed[bytes]; !list.empty())
      *data = list.back(), list.pop_back();
    else
      *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);  // as the driver does
    blocks[*data] = bytes;
    used += bytes;
    return cudaSuccess;
  }
  // In stream order, or without a stream after all work.
  cudaError_t give(void* data, cudaStream_t stream) {
    const auto found = blocks.find(data);
    if (found == blocks.end()) return last = cudaErrorInvalidValue;
    used -= found->second;
    if (stream) cached += found->second;
    if (!stream) work.finish_all(), std::free(data);
    if (stream)
      work.add(stream, {.arguments = {}, .other = [data, bytes = found->second, again = gives_again] {
                          std::memset(data, 0xff, bytes);
                          if (again)
                            now().freed[bytes].push_back(data);
                          else
                            std::free(data);
                        }});
    blocks.erase(found);
    return cudaSuccess;
  }
  // Rejects calls that are not allowed on a capturing stream.
  cudaError_t live(cudaStream_t stream) {
    if (!work.capturing(stream)) return cudaSuccess;
    work.invalidate();
    return last = cudaErrorStreamCaptureUnsupported;
  }
  bool is_pinned(const void* data) {
    for (const auto& [start, bytes] : pinned_bytes)
      if (data >= start && data < static_cast<char*>(start) + bytes) return true;
    return false;
  }
  cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream, bool* waits) {
    FakeWork::Operation o{.kernel = [](FakeArguments& a) { std::memcpy(a.data[0], a.data[1], size_t(a.count)); },
                          .arguments = {.data = {to, const_cast<void*>(from)}, .count = int64_t(bytes)}};
    if (kind == cudaMemcpyDeviceToDevice) return work.add(stream, std::move(o)), cudaSuccess;
    if (const cudaError_t status = live(stream); status != cudaSuccess) return status;
    const bool direct = is_pinned(kind == cudaMemcpyHostToDevice ? from : to);
    if (!direct && kind == cudaMemcpyHostToDevice) {  // copied from the host at once
      o.kernel = nullptr;
      o.other = [to, taken = std::string(static_cast<const char*>(from), bytes)] { std::memcpy(to, taken.data(), taken.size()); };
    }
    work.add(stream, std::move(o));
    *waits = !direct && kind == cudaMemcpyDeviceToHost;
    return cudaSuccess;
  }
};

}  // namespace lamina::cuda
