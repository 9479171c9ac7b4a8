#include "runtime/cuda/pooling.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/cuda/cudnn_calls.h"

namespace lamina::cuda {
namespace {

std::string text_of(const PoolingSizes& s, DType dtype) {
  return cat(dtype, " images [", s.images, ", ", s.height, ", ", s.width, ", ", s.channels, "], window [", s.window_height, ", ",
             s.window_width, "], result [", s.images, ", ", s.out_height, ", ", s.out_width, ", ", s.channels, "]");
}

}  // namespace

struct Pooling::Key {
  DType dtype = DType::f32;
  bool gradient = false;
  PoolingSizes sizes;
  auto operator<=>(const Key&) const = default;
};

struct Pooling::Plan {
  Owned images, result, pooling;
  bool serves = true;
};

struct Pooling::Gpu : PlansOnGpu<Key, Plan> {};

Pooling::Pooling(std::function<CudnnApi()> load, double least) : api_(std::move(load)), least_(least) {}
Pooling::~Pooling() = default;

bool Pooling::serves(double operations) { return operations >= std::max(1.0, least_) && api_.get(); }
size_t Pooling::plan_count() { return gpus_.plan_count(); }

void Pooling::make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan) {
  const CudnnCalls calls(api, text);
  if (!gpu.handle.get()) gpu.handle = calls.handle();
  const PoolingSizes& s = key.sizes;
  const auto i = [](int64_t v) { return int(v); };
  plan.images = calls.images(key.dtype, s.images, s.height, s.width, s.channels);
  plan.result = calls.images(key.dtype, s.images, s.out_height, s.out_width, s.channels);
  plan.pooling = calls.make(api.pooling_create, api.pooling_destroy, "cudnnCreatePoolingDescriptor");
  calls.check(api.pooling_set(plan.pooling.get(), cudnn::kMaxDeterministic, cudnn::kPropagateNan, i(s.window_height), i(s.window_width),
                              i(s.before_height), i(s.before_width), i(s.stride_height), i(s.stride_width)),
              "cudnnSetPooling2dDescriptor");
}

template <class F>
bool Pooling::run(Stream& stream, const PoolingSizes& s, DType dtype, bool gradient, F&& call) {
  if (!is_floating(dtype)) return false;
  if (!pads_alike(s.height, s.window_height, 1, s.before_height, s.stride_height, s.out_height) ||
      !pads_alike(s.width, s.window_width, 1, s.before_width, s.stride_width, s.out_width))
    return false;
  if (!serves(double(s.images) * double(s.out_height) * double(s.out_width) * double(s.channels) * double(s.window_height) *
              double(s.window_width)))
    return false;
  const CudnnApi* api = api_.get();

  const std::string text = text_of(s, dtype);
  const CudnnCalls calls(*api, text);
  Gpu& gpu = gpus_.of(stream.device);
  std::lock_guard lock(gpu.mutex);
  const Key key{dtype, gradient, s};
  Plan& plan = gpu.plan(key, [&](Plan& made) { make(*api, gpu, key, text, made); });
  if (!plan.serves) return false;
  calls.check(api->set_stream(gpu.handle.get(), stream.native), "cudnnSetStream");
  const int status = call(*api, gpu.handle.get(), plan);
  if (cudnn::not_supported(status)) return plan.serves = false;  // use our own kernel from now on
  calls.check(status, gradient ? "cudnnPoolingBackward" : "cudnnPoolingForward");
  return true;
}

bool Pooling::forward(Stream& stream, const PoolingSizes& sizes, const View& x, const View& y) {
  if (!fits_cudnn(x) || !fits_cudnn(y)) return false;
  const Factors factors(y.dtype);
  return run(stream, sizes, y.dtype, false, [&](const CudnnApi& api, void* handle, const Plan& plan) {
    return api.pool(handle, plan.pooling.get(), factors.one(), plan.images.get(), x.data, factors.zero(), plan.result.get(), y.data);
  });
}

bool Pooling::gradient(Stream& stream, const PoolingSizes& sizes, const View& x, const View& y, const View& dy, const View& dx) {
  if (!fits_cudnn(x) || !fits_cudnn(y) || !fits_cudnn(dy) || !fits_cudnn(dx)) return false;
  const Factors factors(dx.dtype);
  return run(stream, sizes, dx.dtype, true, [&](const CudnnApi& api, void* handle, const Plan& plan) {
    void *images = plan.images.get(), *result = plan.result.get();
    return api.pool_gradient(handle, plan.pooling.get(), factors.one(), result, y.data, result, dy.data, images, x.data, factors.zero(),
                             images, dx.data);
  });
}

}  // namespace lamina::cuda
