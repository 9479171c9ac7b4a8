#include "runtime/cuda/batch_norm.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/cuda/cudnn_calls.h"
#include "runtime/device/library_work.h"

namespace lamina::cuda {
namespace {

constexpr const char* kCalls[] = {"cudnnBatchNormalizationForwardTraining", "cudnnBatchNormalizationBackward"};
constexpr double kOperations = 4;  // per element

std::string text_of(const View& x) {
  std::string shape;
  for (int a = 0; a < x.rank; ++a) shape += cat(a ? ", " : "", x.shape[a]);
  return cat(x.dtype, " batch normalisation of [", shape, "]");
}

}  // namespace

struct BatchNorm::Key {
  DType dtype = DType::f32;
  bool gradient = false;
  int64_t images = 0, height = 0, channels = 0;
  auto operator<=>(const Key&) const = default;
};

struct BatchNorm::Plan {
  Owned x, channels;
  bool serves = true;
};

struct BatchNorm::Gpu : PlansOnGpu<Key, Plan> {};

BatchNorm::BatchNorm(std::function<CudnnApi()> load, double least) : api_(std::move(load)), least_(least) {}
BatchNorm::~BatchNorm() = default;

size_t BatchNorm::plan_count() { return gpus_.plan_count(); }

void BatchNorm::make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan) {
  const CudnnCalls calls(api, text);
  if (!gpu.handle.get()) gpu.handle = calls.handle();
  plan.x = calls.images(key.dtype, key.images, key.height, 1, key.channels);
  plan.channels = calls.make(api.tensor_create, api.tensor_destroy, "cudnnCreateTensorDescriptor");
  calls.check(api.norm_derive(plan.channels.get(), plan.x.get(), cudnn::kSpatial), "cudnnDeriveBNTensorDescriptor");
}

template <class F>
bool BatchNorm::run(Stream& stream, const View& x, bool gradient, F&& call) {
  if (!is_floating(x.dtype) || x.rank < 2) return false;
  const int64_t size = x.size(), channels = x.shape[x.rank - 1];
  if (size < 2 * channels || x.shape[0] > kMostNormalizedImages || kOperations * double(size) < std::max(1.0, least_)) return false;
  const CudnnApi* api = api_.get();
  if (!api) return false;

  const std::string text = text_of(x);
  const CudnnCalls calls(*api, text);
  Gpu& gpu = gpus_.of(stream.device);
  std::lock_guard lock(gpu.mutex);
  const Key key{x.dtype, gradient, x.shape[0], size / channels / x.shape[0], channels};
  Plan& plan = gpu.plan(key, [&](Plan& made) { make(*api, gpu, key, text, made); });
  if (!plan.serves) return false;
  calls.check(api->set_stream(gpu.handle.get(), stream.native), "cudnnSetStream");
  const int status = call(*api, gpu.handle.get(), plan);
  if (cudnn::not_supported(status)) return plan.serves = false;  // use our own kernels from now on
  calls.check(status, kCalls[gradient]);
  return true;
}

bool BatchNorm::forward(Stream& stream, const View& x, const View& y, double epsilon, const std::function<Forward()>& vectors) {
  if (!fits_cudnn(x) || !fits_cudnn(y)) return false;
  const Factors factors(x.dtype);
  return run(stream, x, false, [&](const CudnnApi& api, void* handle, const Plan& plan) {
    constexpr double kNewOnesAlone = 1;  // of the running mean and variance
    const Forward v = vectors();
    void* images = plan.x.get();
    return api.normalize(handle, cudnn::kSpatial, factors.one(), factors.zero(), images, x.data, images, y.data, plan.channels.get(),
                         v.scale, v.bias, kNewOnesAlone, v.running_mean, v.running_variance, epsilon, v.mean, v.inverse_deviation);
  });
}

bool BatchNorm::gradient(Stream& stream, const View& x, const View& dy, const View& dx, double epsilon,
                         const std::function<Gradient()>& vectors) {
  if (!fits_cudnn(x) || !fits_cudnn(dy) || !fits_cudnn(dx)) return false;
  const Factors factors(x.dtype);
  // Half-typed moments are rounded, but the library's formula needs deviations that sum to 0, so the library recomputes them.
  const bool rounded = size_of(x.dtype) == 2;
  return run(stream, x, true, [&](const CudnnApi& api, void* handle, const Plan& plan) {
    const Gradient v = vectors();
    void* images = plan.x.get();
    return api.normalize_gradient(handle, cudnn::kSpatial, factors.one(), factors.zero(), factors.one(), factors.zero(), images, x.data,
                                  images, dy.data, images, dx.data, plan.channels.get(), v.scale, v.dscale, v.dbias, epsilon,
                                  rounded ? nullptr : v.mean, rounded ? nullptr : v.inverse_deviation);
  });
}

}  // namespace lamina::cuda
