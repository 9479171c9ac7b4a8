// A CudnnApi controlled by a test, like fake_cublaslt.h: it checks descriptors, computes convolutions on the host
// from the descriptors alone, counts objects created and destroyed, and fails on request.
#pragma once
#include "tests/cuda/fake_cudnn_state.h"

namespace lamina::cuda {

namespace fake_convolutions {

struct Three {
  FakeCudnn::Tensor x, w, y;
  FakeCudnn::Convolution c;
};
// The descriptors of a call; their order differs among the three calls.
inline bool look(FakeCudnn& f, int kind, void* first, void* second, void* convolution, void* third, Three& out) {
  void *x = kind == 1 ? third : first, *w = kind == 0 ? second : kind == 1 ? first : third, *y = kind == 0 ? third : second;
  if (!f.tensors.count(x) || !f.filters.count(w) || !f.tensors.count(y) || !f.convolutions.count(convolution))
    return f.expect(false, "a descriptor that is not there, or another one's"), false;
  out = {f.tensors[x], f.filters[w], f.tensors[y], f.convolutions[convolution]};
  const FakeCudnn::Convolution& c = out.c;
  f.expect(out.x.type == out.y.type && out.w.type == out.y.type, "types differ");
  f.expect(c.compute == (out.y.type == cudnn::kDouble ? cudnn::kDouble : cudnn::kFloat), "the compute type");
  f.expect(out.y.type != cudnn::kFloat || c.math == cudnn::kFmaMath, "tf32 is allowed");
  f.expect(out.x.n == out.y.n && out.y.c == out.w.n && out.x.c == out.w.c * c.groups, "images, channels or filters differ");
  f.expect(out.y.c % c.groups == 0, "filters do not split into groups");
  f.expect(out.y.h == 1 + (out.x.h + 2 * c.pad_h - ((out.w.h - 1) * c.dilation_h + 1)) / c.stride_h, "the result's height");
  f.expect(out.y.w == 1 + (out.x.w + 2 * c.pad_w - ((out.w.w - 1) * c.dilation_w + 1)) / c.stride_w, "the result's width");
  return f.complaints.empty();
}

template <int kind>
int choose(void* handle, void* first, void* second, void* convolution, void* third, int wanted, int* found, cudnn::Choice* choices) {
  static constexpr const char* names[] = {"cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                          "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
  FakeCudnn& f = FakeCudnn::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call(names[kind])) return status;
  f.expect(f.live.count(handle) == 1, "no handle");
  Three t;
  if (!look(f, kind, first, second, convolution, third, t)) return 2000;
  *found = std::min(wanted, int(f.choices.size()));
  std::copy_n(f.choices.begin(), *found, choices);
  return 0;
}

template <int kind>
int run(void* handle, const void* alpha, void* first, const void* first_data, void* second, const void* second_data, void* convolution,
        int algorithm, void* workspace, size_t workspace_bytes, const void* beta, void* third, void* result) {
  static constexpr const char* names[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};
  FakeCudnn& f = FakeCudnn::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call(names[kind])) return status;
  f.expect(f.live.count(handle) == 1, "no handle");
  Three t;
  if (!look(f, kind, first, second, convolution, third, t)) return 2000;
  size_t needed = 0;
  for (const cudnn::Choice& c : f.choices)
    if (c.algorithm == algorithm) needed = c.memory;
  f.expect(workspace_bytes >= needed && (workspace || !needed), "too little workspace");
  f.look_at(t.y.type, alpha, beta, {first_data, second_data, result});
  if (!f.complaints.empty()) return 2000;
  const FakeCudnn::Tensor& of = kind == 0 ? t.y : kind == 1 ? t.x : t.w;
  std::vector<double> sums(size_t(of.n) * size_t(of.c) * size_t(of.h) * size_t(of.w), 0.0);
  const int own_filters = t.y.c / t.c.groups;
  for (int64_t n = 0; n < t.y.n; ++n)
    for (int64_t i = 0; i < t.y.h; ++i)
      for (int64_t j = 0; j < t.y.w; ++j)
        for (int64_t o = 0; o < t.y.c; ++o)
          for (int64_t a = 0; a < t.w.h; ++a)
            for (int64_t b = 0; b < t.w.w; ++b)
              for (int64_t c = 0; c < t.w.c; ++c) {
                const int64_t row = i * t.c.stride_h + a * t.c.dilation_h - t.c.pad_h,
                              column = j * t.c.stride_w + b * t.c.dilation_w - t.c.pad_w;
                if (row < 0 || row >= t.x.h || column < 0 || column >= t.x.w) continue;
                const int64_t at_x = ((n * t.x.h + row) * t.x.w + column) * t.x.c + o / own_filters * t.w.c + c;
                const int64_t at_w = ((o * t.w.h + a) * t.w.w + b) * t.w.c + c, at_y = ((n * t.y.h + i) * t.y.w + j) * t.y.c + o;
                const int64_t p = kind == 1 ? at_w : at_x, q = kind == 0 ? at_w : at_y;
                sums[size_t(kind == 0   ? at_y
                            : kind == 1 ? at_x
                                        : at_w)] += FakeCudnn::read(t.y.type, first_data, p) * FakeCudnn::read(t.y.type, second_data, q);
              }
  for (size_t e = 0; e < sums.size(); ++e) FakeCudnn::write(t.y.type, result, int64_t(e), sums[e]);
  f.algorithms.push_back(algorithm);
  f.made(handle);
  return 0;
}

}  // namespace fake_convolutions

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
      .convolution_math =
          [](void* h, int math) {
            return F::set("cudnnSetConvolutionMathType", &F::convolutions, h, [&](F::Convolution& c) { c.math = math; });
          },
      .convolution_groups =
          [](void* h, int groups) {
            return F::set("cudnnSetConvolutionGroupCount", &F::convolutions, h, [&](F::Convolution& c) { c.groups = groups; });
          },
      .choices = {fake_convolutions::choose<0>, fake_convolutions::choose<1>, fake_convolutions::choose<2>},
      .run = {fake_convolutions::run<0>, fake_convolutions::run<1>, fake_convolutions::run<2>},
      .status_text = [](int status) { return status == 5000 ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_OTHER"; },
  };
}

}  // namespace lamina::cuda
