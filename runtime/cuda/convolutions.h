// Large convolutions of images and their gradients by cuDNN.
//
// Images lie as ours do (channels last). Its filters are [filters, height, width, channels]; ours, [height, width, channels, filters], are
// copied into that order and back, which is little beside the convolution. Its padding is the same on both sides: a convolution whose
// padding is not is left to our own kernel, unless the places that are left out make no difference.
//
// Only deterministic algorithms are taken, and no tf32: f32 is multiplied and summed in float, halves are summed in float.
#pragma once
#include <functional>
#include <string>

#include "runtime/core/view.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/library_use.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

enum class ConvolutionKind : uint8_t { forward, grad_input, grad_filter };

// As kernels/conv2d.h names them.
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
  // load: called once, by the first convolution that is large enough.
  Convolutions(std::function<CudnnApi()> load, double least);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  // forward: x, w give y; grad_input: dy, w give dx; grad_filter: x, dy give dw. All contiguous; f16, bf16, f32, f64. The stream's device
  // is current. False, with nothing done, when our own kernel is to serve: the convolution is small, its padding is one-sided, the library
  // is missing or has no deterministic algorithm for it. Throws device, naming the call, the instruction and the sizes, when a call fails.
  bool run(Stream& stream, ConvolutionKind kind, const ConvolutionSizes& sizes, const View& first, const View& second, const View& result,
           const Copy& copy);

  std::string why_missing() { return api_.why_missing(); }
  size_t plan_count();  // of all devices; kMostPlans on each

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
