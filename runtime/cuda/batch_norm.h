// Large batch normalisation in training, and its gradient, by cuDNN.
//
// The mode is CUDNN_BATCHNORM_SPATIAL: a mean and a variance per channel. The persistent one may be faster, and NVIDIA restricts the values
// that it takes. Rows of channels are images of one column, so that any x [..., c] fits. What belongs to channels is float, or double for
// f64.
#pragma once
#include <functional>
#include <string>

#include "runtime/core/view.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/library_use.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

class BatchNorm {
 public:
  // [c] each, as x's dtype asks. The running ones must hold numbers: the library weighs them with 0.
  struct Forward {
    const void *scale, *bias;
    void *running_mean,
        *running_variance;  // the variance is the sum of squares divided by rows - 1, as PyTorch documents its own, which is this one
    void *mean, *inverse_deviation;
  };
  struct Gradient {
    const void *scale, *mean, *inverse_deviation;
    void *dscale, *dbias;
  };
  // load: called once, by the first normalisation that is large enough.
  BatchNorm(std::function<CudnnApi()> load, double least);
  ~BatchNorm();
  BatchNorm(const BatchNorm&) = delete;
  BatchNorm& operator=(const BatchNorm&) = delete;

  // x gives y and the vectors; x and dy give dx. All contiguous, [..., c]; f16, bf16, f32, f64. `vectors` is asked when the library is to
  // serve, and may launch. The stream's device is current. False, with y or dx as it was, when our own kernels are to serve: x is small
  // (four operations an element) or one row, the library is missing or refuses. Throws device, naming the call, the instruction and the
  // sizes, when a call fails.
  bool forward(Stream& stream, const View& x, const View& y, double epsilon, const std::function<Forward()>& vectors);
  bool gradient(Stream& stream, const View& x, const View& dy, const View& dx, double epsilon, const std::function<Gradient()>& vectors);

  size_t plan_count();  // of all devices; kMostPlans on each

 private:
  struct Key;
  struct Plan;
  struct Gpu;
  void make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan);
  // call(api, handle, plan) for a normalisation that the library is to make; false where it is not to, or refuses.
  template <class F>
  bool run(Stream& stream, const View& x, bool gradient, F&& call);

  LazyApi<CudnnApi> api_;
  const double least_;
  PerDevice<Gpu> gpus_;
};

}  // namespace lamina::cuda
