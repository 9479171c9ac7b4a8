// Large image convolutions and their gradients by cuDNN.
//
// Images are channels last, as ours. cuDNN's filters are [filters, height, width, channels]; ours, [height, width, channels, filters], are
// copied to that order and back, at little cost beside the convolution. Its padding is equal on both sides; other padding is left to our
// own kernel, unless the missing positions do not matter.
//
// Only deterministic algorithms, and no tf32: f32 is multiplied and summed in float, halves are summed in float.
#pragma once
#include <functional>
#include <string>

#include "runtime/core/view.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/library_use.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

enum class ConvolutionKind : uint8_t { forward, grad_input, grad_filter };

// Named as in kernels/conv2d.h.
struct ConvolutionSizes {
  int64_t images = 0, height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0, filters = 0;
  int64_t window_height = 0, window_width = 0;
  int64_t stride_height = 1, stride_width = 1;
  int64_t dilation_height = 1, dilation_width = 1;
  int64_t before_height = 0, before_width = 0;
  int64_t groups = 1;
  auto operator<=>(const ConvolutionSizes&) const = default;
};

class Convolutions {
 public:
  // Copies a view of any strides into a contiguous one of the same shape, on the stream.
  using Copy = std::function<void(Stream&, const View& from, const View& to)>;
  // load: called once, at the first convolution that is large enough.
  Convolutions(std::function<CudnnApi()> load, double least);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  // forward: x, w -> y; grad_input: dy, w -> dx; grad_filter: x, dy -> dw. All contiguous; f16, bf16, f32, f64. The stream's device must be
  // current. Returns false, with nothing done, when our own kernel should run: the convolution is small, its padding is one-sided, or the
  // library is missing or has no deterministic algorithm. Throws device with call, instruction and sizes when a call fails.
  bool run(Stream& stream, ConvolutionKind kind, const ConvolutionSizes& sizes, const View& first, const View& second, const View& result,
           const Copy& copy);

  std::string why_missing() { return api_.why_missing(); }
  size_t plan_count();  // of all devices; at most kMostPlans each

 private:
  struct Key;
  struct Plan;
  struct Gpu;
  void make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan);

  LazyApi<CudnnApi> api_;
  const double least_;
  PerDevice<Gpu> gpus_;
};

}  // namespace lamina::cuda
