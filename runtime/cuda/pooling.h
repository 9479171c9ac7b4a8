// Large max pooling and its gradient by cuDNN.
//
// Images are channels last, and padding is equal on both sides, as in convolutions.h. cuDNN returns no indices; the gradient is computed
// from x, y and dy, in deterministic mode. NVIDIA does not document which of equal elements in a window gets the gradient (ours: the
// first), where the gradient of a NaN goes, and how half types round sums of overlapping windows.
#pragma once
#include <functional>
#include <string>

#include "runtime/core/view.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/library_use.h"
#include "runtime/device/backend.h"

namespace lamina::cuda {

// Named as in kernels/max_pool2d.h.
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
  // load: called once, at the first pooling that is large enough.
  Pooling(std::function<CudnnApi()> load, double least);
  ~Pooling();
  Pooling(const Pooling&) = delete;
  Pooling& operator=(const Pooling&) = delete;

  // Whether the library is there and should run a pooling with this many comparisons.
  bool serves(double operations);
  // x -> y; x, y, dy -> dx. All contiguous; f16, bf16, f32, f64. The stream's device must be current. Returns false, with nothing done,
  // when our own kernel should run: the pooling is small, its padding is one-sided, or the library is missing or does not support it.
  // Throws device with call, instruction and sizes when a call fails.
  bool forward(Stream& stream, const PoolingSizes& sizes, const View& x, const View& y);
  bool gradient(Stream& stream, const PoolingSizes& sizes, const View& x, const View& y, const View& dy, const View& dx);

  size_t plan_count();  // of all devices; at most kMostPlans each

 private:
  struct Key;
  struct Plan;
  struct Gpu;
  void make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan);
  // Calls call(api, handle, plan) if the library should run this pooling; false if not, or if it does not support it.
  template <class F>
  bool run(Stream& stream, const PoolingSizes& sizes, DType dtype, bool gradient, F&& call);

  LazyApi<CudnnApi> api_;
  const double least_;
  PerDevice<Gpu> gpus_;
};

}  // namespace lamina::cuda
