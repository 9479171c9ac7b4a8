// The state of fake_cudnn.h: live objects, the contents of descriptors, and how elements are read.
#pragma once
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/core/half.h"
#include "runtime/cuda/cudnn.h"
#include "tests/cuda/fake_library.h"

namespace lamina::cuda {

struct FakeCudnn : FakeLibrary {
  struct Tensor {  // images with channels last, or filters [k, h, w, c]
    int type = -1, n = 0, c = 0, h = 0, w = 0;
  };
  struct Convolution {
    int pad_h = 0, pad_w = 0, stride_h = 0, stride_w = 0, dilation_h = 0, dilation_w = 0, compute = -1, math = 0, groups = 1;
  };
  std::vector<cudnn::Choice> choices;  // proposed by the heuristics
  int64_t handles = 0;
  std::map<void*, void*> live;  // handle: its stream
  std::map<void*, Tensor> tensors, filters;
  std::map<void*, Convolution> convolutions;
  std::vector<int> algorithms;  // of the convolutions that were run
  std::vector<void*> streams;   // used by calls

  static FakeCudnn& now() {
    static auto* fake = new FakeCudnn;
    return *fake;
  }
  static cudnn::Choice choice(int algorithm, size_t memory = 0, int determinism = 1, int math = 3, int status = 0) {
    return {algorithm, status, 0.5f, memory, determinism, math, {}};
  }
  void reset() {
    fail.clear(), calls.clear(), complaints.clear(), algorithms.clear(), streams.clear();
    live.clear(), tensors.clear(), filters.clear(), convolutions.clear();
    choices = {choice(1)};
  }
  size_t alive() const { return live.size() + tensors.size() + filters.size() + convolutions.size(); }

  template <class T>
  static int create(const char* name, std::map<void*, T> FakeCudnn::* kind, void** out) {
    FakeCudnn& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call(name)) return status;
    *out = reinterpret_cast<void*>(0x1000 + 16 * ++f.handles);
    (f.*kind)[*out] = {};
    return 0;
  }
  template <class T>
  static int destroy(const char* name, std::map<void*, T> FakeCudnn::* kind, void* handle) {
    FakeCudnn& f = now();
    std::lock_guard lock(f.mutex);
    f.expect((f.*kind).erase(handle) == 1, cat(name, " of what is not there"));
    return 0;
  }
  // Sets the contents of a descriptor.
  template <class T, class F>
  static int set(const char* name, std::map<void*, T> FakeCudnn::* kind, void* handle, F change) {
    FakeCudnn& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call(name)) return status;
    const auto found = (f.*kind).find(handle);
    if (found == (f.*kind).end()) return f.expect(false, cat(name, " of what is not there")), 2000;
    change(found->second);
    return 0;
  }

  // The factors of `alpha * result + beta * old result`, and operands as its kernels read them. The lock must be held.
  void look_at(int type, const void* alpha, const void* beta, std::initializer_list<const void*> data) {
    const bool wide = type == cudnn::kDouble;
    expect((wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha)) == 1, "alpha is not 1");
    expect((wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta)) == 0, "beta is not 0");
    for (const void* p : data) expect(uintptr_t(p) % 16 == 0, "memory that is not aligned to 16 bytes");
  }
  void made(void* handle) { streams.push_back(live[handle]); }
};

}  // namespace lamina::cuda
