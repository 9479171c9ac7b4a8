// Large max pooling and its gradient by cuDNN.
//
// Images lie as ours do, channels last, and its padding is the same on both sides, as for convolutions (convolutions.h). It has no places:
// the gradient is made from x, y and dy. The mode is the deterministic one. What NVIDIA does not document: which of equal elements of a
// window gets its gradient (ours: the first), where the gradient of a NaN goes, and how sums are rounded in half types where windows
// overlap.
#pragma once
#include <functional>
#include <string>

#include "runtime/core/view.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/library_use.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

// As kernels/max_pool2d.h names them.
struct PoolingSizes {
  int64_t images = 0, height = 0, width = 0, channels = 0;
  int64_t out_height = 0, out_width = 0;
  int64_t window_height = 1, window_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t before_height = 0, before_width = 0;
  auto operator<=>(const PoolingSizes&) const = default;
};

class Pooling {
 public:
  // load: called once, by the first pooling that is large enough.
  Pooling(std::function<CudnnApi()> load, double least);
  ~Pooling();
  Pooling(const Pooling&) = delete;
  Pooling& operator=(const Pooling&) = delete;

  // Whether the library is there, and is to make a pooling that compares so many elements.
  bool serves(double operations);
  // x gives y; x, y and dy give dx. All contiguous; f16, bf16, f32, f64. The stream's device is current. False, with nothing done, when our
  // own kernel is to serve: the pooling is small, its padding is one-sided, the library is missing or refuses. Throws device, naming the
  // call, the instruction and the sizes, when a call fails.
  bool forward(Stream& stream, const PoolingSizes& sizes, const View& x, const View& y);
  bool gradient(Stream& stream, const PoolingSizes& sizes, const View& x, const View& y, const View& dy, const View& dx);

  size_t plan_count();  // of all devices; kMostPlans on each

 private:
  struct Key;
  struct Plan;
  struct Gpu;
  void make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan);
  // call(api, handle, plan) for a pooling that the library is to make; false where it is not to, or refuses.
  template <class F>
  bool run(Stream& stream, const PoolingSizes& sizes, DType dtype, bool gradient, F&& call);

  LazyApi<CudnnApi> api_;
  const double least_;
  PerDevice<Gpu> gpus_;
};

}  // namespace lamina::cuda
