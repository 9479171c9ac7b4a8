// A CudnnApi that a test controls, as fake_cublaslt.h is: it checks every descriptor, makes the convolution on the host from the descriptors
// alone, counts what is created and destroyed, and fails where it is told to.
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
  std::vector<cudnn::Choice> choices;   // what the heuristics propose
  int64_t handles = 0;
  std::map<void*, void*> live;          // handle: its stream
  std::map<void*, Tensor> tensors, filters;
  std::map<void*, Convolution> convolutions;
  std::vector<int> algorithms;          // of the convolutions that were made
  std::vector<void*> streams;           // and where

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
  // Sets what a descriptor is.
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

  struct Three {
    Tensor x, w, y;
    Convolution c;
  };
  // The descriptors of a call in their order, which differs among the three.
  bool look(int kind, void* first, void* second, void* convolution, void* third, Three& out) {
    void *x = kind == 1 ? third : first, *w = kind == 0 ? second : kind == 1 ? first : third, *y = kind == 0 ? third : second;
    if (!tensors.count(x) || !filters.count(w) || !tensors.count(y) || !convolutions.count(convolution)) return expect(false, "a descriptor that is not there, or another one's"), false;
    out = {tensors[x], filters[w], tensors[y], convolutions[convolution]};
    const Convolution& c = out.c;
    expect(out.x.type == out.y.type && out.w.type == out.y.type, "types differ");
    expect(c.compute == (out.y.type == cudnn::kDouble ? cudnn::kDouble : cudnn::kFloat), "the compute type");
    expect(out.y.type != cudnn::kFloat || c.math == cudnn::kFmaMath, "tf32 is allowed");
    expect(out.x.n == out.y.n && out.y.c == out.w.n && out.x.c == out.w.c * c.groups, "images, channels or filters differ");
    expect(out.y.c % c.groups == 0, "filters do not split into groups");
    expect(out.y.h == 1 + (out.x.h + 2 * c.pad_h - ((out.w.h - 1) * c.dilation_h + 1)) / c.stride_h, "the result's height");
    expect(out.y.w == 1 + (out.x.w + 2 * c.pad_w - ((out.w.w - 1) * c.dilation_w + 1)) / c.stride_w, "the result's width");
    return complaints.empty();
  }

  template <int kind>
  static int choose(void* handle, void* first, void* second, void* convolution, void* third, int wanted, int* found, cudnn::Choice* choices) {
    static constexpr const char* names[] = {"cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                            "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
    FakeCudnn& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call(names[kind])) return status;
    f.expect(f.live.count(handle) == 1, "no handle");
    Three t;
    if (!f.look(kind, first, second, convolution, third, t)) return 2000;
    *found = std::min(wanted, int(f.choices.size()));
    std::copy_n(f.choices.begin(), *found, choices);
    return 0;
  }

  static double read(int type, const void* data, int64_t i) {
    switch (type) {
      case cudnn::kFloat: return static_cast<const float*>(data)[i];
      case cudnn::kDouble: return static_cast<const double*>(data)[i];
      case cudnn::kHalf: return float(static_cast<const f16*>(data)[i]);
      default: return float(static_cast<const bf16*>(data)[i]);
    }
  }
  static void write(int type, void* data, int64_t i, double v) {
    switch (type) {
      case cudnn::kFloat: static_cast<float*>(data)[i] = float(v); break;
      case cudnn::kDouble: static_cast<double*>(data)[i] = v; break;
      case cudnn::kHalf: static_cast<f16*>(data)[i] = f16(float(v)); break;
      default: static_cast<bf16*>(data)[i] = bf16(float(v)); break;
    }
  }

  template <int kind>
  static int run(void* handle, const void* alpha, void* first, const void* first_data, void* second, const void* second_data, void* convolution, int algorithm,
                 void* workspace, size_t workspace_bytes, const void* beta, void* third, void* result) {
    static constexpr const char* names[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};
    FakeCudnn& f = now();
    std::lock_guard lock(f.mutex);
    if (const int status = f.call(names[kind])) return status;
    f.expect(f.live.count(handle) == 1, "no handle");
    Three t;
    if (!f.look(kind, first, second, convolution, third, t)) return 2000;
    size_t needed = 0;
    for (const cudnn::Choice& c : f.choices)
      if (c.algorithm == algorithm) needed = c.memory;
    f.expect(workspace_bytes >= needed && (workspace || !needed), "too little workspace");
    const bool wide = t.y.type == cudnn::kDouble;
    f.expect((wide ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha)) == 1, "alpha is not 1");
    f.expect((wide ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta)) == 0, "beta is not 0");
    for (const void* p : {first_data, second_data, static_cast<const void*>(result)}) f.expect(uintptr_t(p) % 16 == 0, "memory that is not aligned to 16 bytes");
    if (!f.complaints.empty()) return 2000;
    const Tensor& of = kind == 0 ? t.y : kind == 1 ? t.x : t.w;
    std::vector<double> sums(size_t(of.n) * size_t(of.c) * size_t(of.h) * size_t(of.w), 0.0);
    const int own_filters = t.y.c / t.c.groups;
    for (int64_t n = 0; n < t.y.n; ++n)
      for (int64_t i = 0; i < t.y.h; ++i)
        for (int64_t j = 0; j < t.y.w; ++j)
          for (int64_t o = 0; o < t.y.c; ++o)
            for (int64_t a = 0; a < t.w.h; ++a)
              for (int64_t b = 0; b < t.w.w; ++b)
                for (int64_t c = 0; c < t.w.c; ++c) {
                  const int64_t row = i * t.c.stride_h + a * t.c.dilation_h - t.c.pad_h, column = j * t.c.stride_w + b * t.c.dilation_w - t.c.pad_w;
                  if (row < 0 || row >= t.x.h || column < 0 || column >= t.x.w) continue;
                  const int64_t at_x = ((n * t.x.h + row) * t.x.w + column) * t.x.c + o / own_filters * t.w.c + c;
                  const int64_t at_w = ((o * t.w.h + a) * t.w.w + b) * t.w.c + c, at_y = ((n * t.y.h + i) * t.y.w + j) * t.y.c + o;
                  const int64_t p = kind == 1 ? at_w : at_x, q = kind == 0 ? at_w : at_y;
                  sums[size_t(kind == 0 ? at_y : kind == 1 ? at_x : at_w)] += read(t.y.type, first_data, p) * read(t.y.type, second_data, q);
                }
    for (size_t e = 0; e < sums.size(); ++e) write(t.y.type, result, int64_t(e), sums[e]);
    f.algorithms.push_back(algorithm);
    f.streams.push_back(f.live[handle]);
    return 0;
  }
};

inline CudnnApi fake_cudnn() {
  using F = FakeCudnn;
  return {
      .create = [](void** out) { return F::create("cudnnCreate", &F::live, out); },
      .destroy = [](void* h) { return F::destroy("cudnnDestroy", &F::live, h); },
      .set_stream = [](void* h, void* stream) { return F::set("cudnnSetStream", &F::live, h, [&](void*& s) { s = stream; }); },
      .tensor_create = [](void** out) { return F::create("cudnnCreateTensorDescriptor", &F::tensors, out); },
      .tensor_destroy = [](void* h) { return F::destroy("cudnnDestroyTensorDescriptor", &F::tensors, h); },
      .tensor_set =
          [](void* h, int format, int type, int n, int c, int height, int width) {
            return F::set("cudnnSetTensor4dDescriptor", &F::tensors, h, [&](F::Tensor& t) {
              F::now().expect(format == cudnn::kChannelsLast, "channels are not last");
              t = {type, n, c, height, width};
            });
          },
      .filter_create = [](void** out) { return F::create("cudnnCreateFilterDescriptor", &F::filters, out); },
      .filter_destroy = [](void* h) { return F::destroy("cudnnDestroyFilterDescriptor", &F::filters, h); },
      .filter_set =
          [](void* h, int type, int format, int k, int c, int height, int width) {
            return F::set("cudnnSetFilter4dDescriptor", &F::filters, h, [&](F::Tensor& t) {
              F::now().expect(format == cudnn::kChannelsLast, "channels are not last");
              t = {type, k, c, height, width};
            });
          },
      .convolution_create = [](void** out) { return F::create("cudnnCreateConvolutionDescriptor", &F::convolutions, out); },
      .convolution_destroy = [](void* h) { return F::destroy("cudnnDestroyConvolutionDescriptor", &F::convolutions, h); },
      .convolution_set =
          [](void* h, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int mode, int compute) {
            return F::set("cudnnSetConvolution2dDescriptor", &F::convolutions, h, [&](F::Convolution& c) {
              F::now().expect(mode == cudnn::kCrossCorrelation, "the filters are turned round");
              c = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, compute};
            });
          },
      .convolution_math = [](void* h, int math) { return F::set("cudnnSetConvolutionMathType", &F::convolutions, h, [&](F::Convolution& c) { c.math = math; }); },
      .convolution_groups = [](void* h, int groups) { return F::set("cudnnSetConvolutionGroupCount", &F::convolutions, h, [&](F::Convolution& c) { c.groups = groups; }); },
      .choices = {F::choose<0>, F::choose<1>, F::choose<2>},
      .run = {F::run<0>, F::run<1>, F::run<2>},
      .status_text = [](int status) { return status == 5000 ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_OTHER"; },
  };
}

}  // namespace lamina::cuda
