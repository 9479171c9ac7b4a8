#include "runtime/cuda/convolutions.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "runtime/cuda/cudnn_calls.h"
#include "runtime/device/launch_memory.h"

namespace lamina::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr int kMostChoices = 8;
constexpr const char* kChoose[] = {"cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                   "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
constexpr const char* kRun[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};

std::string text_of(const ConvolutionSizes& s, DType dtype) {
  return cat(dtype, " images [", s.images, ", ", s.height, ", ", s.width, ", ", s.channels, "], filters [", s.window_height, ", ",
             s.window_width, ", ", s.channels / s.groups, ", ", s.filters, "], result [", s.images, ", ", s.out_height, ", ", s.out_width,
             ", ", s.filters, "]");
}

// A descriptor of shape [a, b, c, d] with a stride in elements for each axis.
View seen(void* data, DType dtype, const int64_t (&shape)[4], const int64_t (&strides)[4]) {
  View v;
  v.data = data, v.dtype = dtype, v.rank = 4;
  for (int a = 0; a < 4; ++a) v.shape[a] = shape[a], v.strides[a] = strides[a];
  return v;
}

}  // namespace

struct Convolutions::Key {
  ConvolutionKind kind = ConvolutionKind::forward;
  DType dtype = DType::f32;
  ConvolutionSizes sizes;
  auto operator<=>(const Key&) const = default;
};

struct Convolutions::Plan {
  Owned images, filters, result, convolution;  // x or dx; w or dw; y or dy
  int algorithm = 0;
  size_t workspace = 0;
  bool serves = false;
};

struct Convolutions::Gpu : PlansOnGpu<Key, Plan> {};

Convolutions::Convolutions(std::function<CudnnApi()> load, double least) : api_(std::move(load)), least_(least) {}
Convolutions::~Convolutions() = default;

size_t Convolutions::plan_count() { return gpus_.plan_count(); }

void Convolutions::make(const CudnnApi& api, Gpu& gpu, const Key& key, const std::string& text, Plan& plan) {
  const CudnnCalls calls(api, text);
  if (!gpu.handle.get()) gpu.handle = calls.handle();
  const ConvolutionSizes& s = key.sizes;
  const int type = cudnn_type(key.dtype);
  const auto i = [](int64_t v) { return int(v); };
  plan.images = calls.images(key.dtype, s.images, s.height, s.width, s.channels);
  plan.result = calls.images(key.dtype, s.images, s.out_height, s.out_width, s.filters);
  plan.filters = calls.make(api.filter_create, api.filter_destroy, "cudnnCreateFilterDescriptor");
  calls.check(api.filter_set(plan.filters.get(), type, cudnn::kChannelsLast, i(s.filters), i(s.channels / s.groups), i(s.window_height),
                             i(s.window_width)),
              "cudnnSetFilter4dDescriptor");
  plan.convolution = calls.make(api.convolution_create, api.convolution_destroy, "cudnnCreateConvolutionDescriptor");
  calls.check(api.convolution_set(plan.convolution.get(), i(s.before_height), i(s.before_width), i(s.stride_height), i(s.stride_width),
                                  i(s.dilation_height), i(s.dilation_width), cudnn::kCrossCorrelation,
                                  key.dtype == DType::f64 ? cudnn::kDouble : cudnn::kFloat),
              "cudnnSetConvolution2dDescriptor");
  const int math = size_of(key.dtype) == 2 ? cudnn::kTensorMath : key.dtype == DType::f32 ? cudnn::kFmaMath : cudnn::kDefaultMath;
  calls.check(api.convolution_math(plan.convolution.get(), math), "cudnnSetConvolutionMathType");
  if (s.groups > 1) calls.check(api.convolution_groups(plan.convolution.get(), i(s.groups)), "cudnnSetConvolutionGroupCount");

  cudnn::Choice choices[kMostChoices] = {};
  int count = 0;
  const int kind = int(key.kind);
  void *x = plan.images.get(), *w = plan.filters.get(), *y = plan.result.get();
  void* const operands[3][3] = {{x, w, y}, {w, y, x}, {x, y, w}};
  const int answer = api.choices[kind](gpu.handle.get(), operands[kind][0], operands[kind][1], plan.convolution.get(), operands[kind][2],
                                       kMostChoices, &count, choices);
  if (!cudnn::not_supported(answer)) calls.check(answer, kChoose[kind]);
  for (int c = 0; answer == 0 && c < count && !plan.serves; ++c) {
    if (choices[c].status != 0 || choices[c].determinism != cudnn::kDeterministic || choices[c].memory > kMostWorkspace) continue;
    if (key.dtype == DType::f32 && choices[c].math != cudnn::kFmaMath && choices[c].math != cudnn::kDefaultMath) continue;
    plan.serves = true, plan.algorithm = choices[c].algorithm, plan.workspace = choices[c].memory;
  }
}

bool Convolutions::run(Stream& stream, ConvolutionKind kind, const ConvolutionSizes& s, const View& first, const View& second,
                       const View& result, const Copy& copy) {
  if (!is_floating(result.dtype)) return false;
  const double work = double(s.images) * double(s.out_height) * double(s.out_width) * double(s.filters) * double(s.window_height) *
                      double(s.window_width) * double(s.channels / s.groups);
  if (work < std::max(1.0, least_)) return false;
  if (!pads_alike(s.height, s.window_height, s.dilation_height, s.before_height, s.stride_height, s.out_height) ||
      !pads_alike(s.width, s.window_width, s.dilation_width, s.before_width, s.stride_width, s.out_width))
    return false;
  if (!fits_cudnn(first) || !fits_cudnn(second) || !fits_cudnn(result)) return false;
  const CudnnApi* api = api_.get();
  if (!api) return false;

  const std::string text = text_of(s, result.dtype);
  Gpu& gpu = gpus_.of(stream.device);
  std::lock_guard lock(gpu.mutex);
  const Key key{kind, result.dtype, s};
  Plan& plan = gpu.plan(key, [&](Plan& made) { make(*api, gpu, key, text, made); });
  if (!plan.serves) return false;
  const CudnnCalls calls(*api, text);
  calls.check(api->set_stream(gpu.handle.get(), stream.native), "cudnnSetStream");

  // The filters in the library's order, contiguous.
  const int64_t f = s.filters, a = s.window_height, b = s.window_width, c = s.channels / s.groups;
  const size_t bytes = size_t(f * a * b * c) * size_of(result.dtype);
  const LaunchMemory filters(stream, bytes), workspace(stream, plan.workspace);
  const View theirs = seen(filters.data(), result.dtype, {f, a, b, c}, {a * b * c, b * c, c, 1});
  if (kind != ConvolutionKind::grad_filter) copy(stream, seen(second.data, result.dtype, {f, a, b, c}, {1, b * c * f, c * f, f}), theirs);

  const Factors factors(result.dtype);
  void *x = plan.images.get(), *w = plan.filters.get(), *y = plan.result.get();
  const auto call = [&](void* d1, const void* p1, void* d2, const void* p2, void* d3, void* p3) {
    return api->run[int(kind)](gpu.handle.get(), factors.one(), d1, p1, d2, p2, plan.convolution.get(), plan.algorithm, workspace.data(),
                               workspace.bytes(), factors.zero(), d3, p3);
  };
  int status = 0;
  switch (kind) {
    case ConvolutionKind::forward: status = call(x, first.data, w, filters.data(), y, result.data); break;
    case ConvolutionKind::grad_input: status = call(w, filters.data(), y, first.data, x, result.data); break;
    case ConvolutionKind::grad_filter: status = call(x, first.data, y, second.data, w, filters.data()); break;
  }
  if (cudnn::not_supported(status)) return plan.serves = false;  // despite the heuristic: use our own kernel from now on
  calls.check(status, kRun[int(kind)]);
  if (kind == ConvolutionKind::grad_filter)
    copy(stream, seen(filters.data(), result.dtype, {a, b, c, f}, {b * c, c, 1, a * b * c}), result);
  return true;
}

}  // namespace lamina::cuda
