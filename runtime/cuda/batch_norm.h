// Large batch normalisations in training, and their gradients, by cuDNN.
//
// The mode is CUDNN_BATCHNORM_SPATIAL: one mean and variance per channel. (The persistent mode may be faster, but NVIDIA restricts its
// input values.) Rows of channels are passed as images of one column, so any x [..., c] works. Per-channel vectors are float, or double for
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
  // [c] each, of the type that x's dtype requires. The running ones must hold finite numbers: the library multiplies them by 0.
  struct Forward {
    const void *scale, *bias;
    void *running_mean,
        *running_variance;  // divides by rows - 1, as PyTorch documents for this function
    void *mean, *inverse_deviation;
  };
  struct Gradient {
    const void *scale, *mean, *inverse_deviation;
    void *dscale, *dbias;
  };
  // load: called once, at the first normalisation that is large enough.
  BatchNorm(std::function<CudnnApi()> load, double least);
  ~BatchNorm();
  BatchNorm(const BatchNorm&) = delete;
  BatchNorm& operator=(const BatchNorm&) = delete;

  // forward: x -> y and the vectors; backward: x, dy -> dx. All contiguous, [..., c]; f16, bf16, f32, f64. `vectors` is called only if the
  // library runs, and may launch. The stream's device must be current. Returns false, with y or dx unchanged, when our own kernels should
  // run: x is small (four operations per element) or has one row, or the library is missing or does not support it. Throws device with
  // call, instruction and sizes when a call fails.
  bool forward(Stream& stream, const View& x, const View& y, double epsilon, const std::function<Forward()>& vectors);
  bool gradient(Stream& stream, const View& x, const View& dy, const View& dx, double epsilon, const std::function<Gradient()>& vectors);

  size_t plan_count();  // of all devices; at most kMostPlans each

 private:
  struct Key;
  struct Plan;
  struct Gpu;
  void make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan);
  // Calls call(api, handle, plan) if the library should run this normalisation; false if not, or if it does not support it.
  template <class F>
  bool run(Stream& stream, const View& x, bool gradient, F&& call);

  LazyApi<CudnnApi> api_;
  const double least_;
  PerDevice<Gpu> gpus_;
};

}  // namespace lamina::cuda
