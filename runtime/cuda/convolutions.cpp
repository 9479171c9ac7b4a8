#include "runtime/cuda/convolutions.h"

#include <algorithm>
#include <compare>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/core/error.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/device/launch_memory.h"

namespace lamina::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{256} << 20;
constexpr int kMostChoices = 8;
constexpr const char* kChoose[] = {"cudnnGetConvolutionForwardAlgorithm_v7", "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                   "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
constexpr const char* kRun[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"};

int type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return cudnn::kHalf;
    case DType::bf16: return cudnn::kBfloat16;
    case DType::f64: return cudnn::kDouble;
    default: return cudnn::kFloat;
  }
}

// Whether a window with as much padding after as before stands in just these places.
bool is_even(int64_t length, int64_t window, int64_t dilation, int64_t before, int64_t stride, int64_t places) {
  const int64_t room = length + 2 * before - ((window - 1) * dilation + 1);
  return room >= 0 && room / stride + 1 == places;
}

std::string text_of(const ConvolutionSizes& s, DType dtype) {
  return cat(dtype, " images [", s.images, ", ", s.height, ", ", s.width, ", ", s.channels, "], filters [", s.window_height, ", ",
             s.window_width, ", ", s.channels / s.groups, ", ", s.filters, "], result [", s.images, ", ", s.out_height, ", ", s.out_width,
             ", ", s.filters, "]");
}

[[noreturn]] void fail(const CudnnApi& api, int status, const char* call, const std::string& text) {
  const char* instruction = launching_instruction();
  throw Error(cudnn::no_memory(status) ? ErrorKind::out_of_memory : ErrorKind::device,
              {.what = cat("cuda: ", call, " failed", *instruction ? " in " : "", instruction),
               .where = text,
               .why = cat("cuDNN says ", api.status_text(status), " (", status, ")"),
               .fix = "LAMINA_CUDNN=never has Lamina's own kernels make all convolutions"});
}

// [a, b, c, d] of these lengths, in which a step along each axis is so many elements.
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
  const auto check = [&](int status, const char* name) {
    if (status != 0) fail(api, status, name, text);
  };
  const auto make = [&](auto create, auto destroy, const char* name) {
    void* made = nullptr;
    check(create(&made), name);
    return Owned(made, destroy);
  };
  if (!gpu.handle.get()) gpu.handle = make(api.create, api.destroy, "cudnnCreate");
  const ConvolutionSizes& s = key.sizes;
  const int type = type_of(key.dtype);
  const auto i = [](int64_t v) { return int(v); };
  plan.images = make(api.tensor_create, api.tensor_destroy, "cudnnCreateTensorDescriptor");
  check(api.tensor_set(plan.images.get(), cudnn::kChannelsLast, type, i(s.images), i(s.channels), i(s.height), i(s.width)),
        "cudnnSetTensor4dDescriptor");
  plan.result = make(api.tensor_create, api.tensor_destroy, "cudnnCreateTensorDescriptor");
  check(api.tensor_set(plan.result.get(), cudnn::kChannelsLast, type, i(s.images), i(s.filters), i(s.out_height), i(s.out_width)),
        "cudnnSetTensor4dDescriptor");
  plan.filters = make(api.filter_create, api.filter_destroy, "cudnnCreateFilterDescriptor");
  check(api.filter_set(plan.filters.get(), type, cudnn::kChannelsLast, i(s.filters), i(s.channels / s.groups), i(s.window_height),
                       i(s.window_width)),
        "cudnnSetFilter4dDescriptor");
  plan.convolution = make(api.convolution_create, api.convolution_destroy, "cudnnCreateConvolutionDescriptor");
  check(api.convolution_set(plan.convolution.get(), i(s.before_height), i(s.before_width), i(s.stride_height), i(s.stride_width),
                            i(s.dilation_height), i(s.dilation_width), cudnn::kCrossCorrelation,
                            key.dtype == DType::f64 ? cudnn::kDouble : cudnn::kFloat),
        "cudnnSetConvolution2dDescriptor");
  const int math = size_of(key.dtype) == 2 ? cudnn::kTensorMath : key.dtype == DType::f32 ? cudnn::kFmaMath : cudnn::kDefaultMath;
  check(api.convolution_math(plan.convolution.get(), math), "cudnnSetConvolutionMathType");
  if (s.groups > 1) check(api.convolution_groups(plan.convolution.get(), i(s.groups)), "cudnnSetConvolutionGroupCount");

  cudnn::Choice choices[kMostChoices] = {};
  int count = 0;
  const int kind = int(key.kind);
  void *x = plan.images.get(), *w = plan.filters.get(), *y = plan.result.get();
  void* const operands[3][3] = {{x, w, y}, {w, y, x}, {x, y, w}};
  const int answer = api.choices[kind](gpu.handle.get(), operands[kind][0], operands[kind][1], plan.convolution.get(), operands[kind][2],
                                       kMostChoices, &count, choices);
  if (!cudnn::not_supported(answer)) check(answer, kChoose[kind]);
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
  if (!is_even(s.height, s.window_height, s.dilation_height, s.before_height, s.stride_height, s.out_height) ||
      !is_even(s.width, s.window_width, s.dilation_width, s.before_width, s.stride_width, s.out_width))
    return false;
  constexpr uintptr_t kAligned = 16;  // what its kernels read at once
  for (const View* v : {&first, &second, &result})
    if (v->size() > std::numeric_limits<int32_t>::max() || uintptr_t(v->data) % kAligned) return false;
  const CudnnApi* api = api_.get();
  if (!api) return false;

  const std::string text = text_of(s, result.dtype);
  Gpu& gpu = gpus_.of(stream.device);
  std::lock_guard lock(gpu.mutex);
  const Key key{kind, result.dtype, s};
  Plan& plan = gpu.plan(key, [&](Plan& made) { make(*api, gpu, key, text, made); });
  if (!plan.serves) return false;
  if (const int status = api->set_stream(gpu.handle.get(), stream.native)) fail(*api, status, "cudnnSetStream", text);

  // The filters in the library's order, one after the other.
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
  if (cudnn::not_supported(status)) return plan.serves = false;  // its heuristic knew no better: from now on our own kernel
  if (status != 0) fail(*api, status, kRun[int(kind)], text);
  if (kind == ConvolutionKind::grad_filter)
    copy(stream, seen(filters.data(), result.dtype, {a, b, c, f}, {b * c, c, 1, a * b * c}), result);
  return true;
}

}  // namespace lamina::cuda
