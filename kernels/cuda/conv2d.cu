// Each of the three is a product (product.h), with one batch per group of channels. Image elements are located while tiles are loaded: a
// row of the product is a position in the result, and k runs over the window and the channels.
#include "kernels/conv2d.h"

#include "kernels/cuda/library_convolution.h"
#include "kernels/cuda/product.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

struct Place {
  int64_t image, row, column;
};
// Position p in images of height x width.
LAMINA_DEVICE Place place_of(int64_t p, int64_t height, int64_t width) { return {p / width / height, p / width % height, p % width}; }

// The elements of x under the window: element (position in y, (a, b, c)); 0 outside of the image.
template <class T>
struct Seen {
  const T* x;
  ConvSizes s;
  int64_t group = 0;
  LAMINA_DEVICE void start(int64_t batch) { group = batch; }
  LAMINA_DEVICE compute_t<T> at(int64_t place, int64_t k) const {
    const int64_t channels = s.channels / s.groups, c = k % channels, b = k / channels % s.window_width, a = k / channels / s.window_width;
    const Place y = place_of(place, s.out_height, s.out_width);
    const int64_t row = y.row * s.stride_height + a * s.dilation_height - s.before_height;
    const int64_t column = y.column * s.stride_width + b * s.dilation_width - s.before_width;
    if (row < 0 || row >= s.height || column < 0 || column >= s.width) return compute_t<T>(0);
    return widen(x[((y.image * s.height + row) * s.width + column) * s.channels + group * channels + c]);
  }
};
template <class T>
struct PlacesByWindow : Seen<T> {
  static constexpr bool depth_is_near = true;
  LAMINA_DEVICE compute_t<T> operator()(int64_t place, int64_t k) const { return this->at(place, k); }
};
template <class T>
struct WindowByPlaces : Seen<T> {
  static constexpr bool depth_is_near = false;
  LAMINA_DEVICE compute_t<T> operator()(int64_t k, int64_t place) const { return this->at(place, k); }
};

// The transpose: element (position in x, (a, b, filter)) of dy; 0 where the window has no position.
template <class T>
struct Reaching {
  const T* dy;
  ConvSizes s;
  int64_t group = 0;
  static constexpr bool depth_is_near = true;
  LAMINA_DEVICE void start(int64_t batch) { group = batch; }
  LAMINA_DEVICE compute_t<T> operator()(int64_t place, int64_t k) const {
    const int64_t filters = s.filters / s.groups, o = k % filters, b = k / filters % s.window_width, a = k / filters / s.window_width;
    const Place x = place_of(place, s.height, s.width);
    const int64_t row = x.row + s.before_height - a * s.dilation_height, column = x.column + s.before_width - b * s.dilation_width;
    if (row < 0 || column < 0 || row % s.stride_height || column % s.stride_width) return compute_t<T>(0);
    const int64_t i = row / s.stride_height, j = column / s.stride_width;
    if (i >= s.out_height || j >= s.out_width) return compute_t<T>(0);
    return widen(dy[((x.image * s.out_height + i) * s.out_width + j) * s.filters + group * filters + o]);
  }
};

// One group's part of rows of `width` elements: element (column, row).
template <class T>
struct GroupColumns {
  const T* data;
  int64_t width, per_group, group = 0;
  static constexpr bool depth_is_near = false;
  LAMINA_DEVICE void start(int64_t batch) { group = batch; }
  LAMINA_DEVICE compute_t<T> operator()(int64_t column, int64_t row) const { return widen(data[row * width + group * per_group + column]); }
};
// The filters with channels as columns: element (channel, (a, b, filter)).
template <class T>
struct TurnedFilters {
  const T* w;
  int64_t channels, filters, groups, group = 0;  // channels per group
  static constexpr bool depth_is_near = true;
  LAMINA_DEVICE void start(int64_t batch) { group = batch; }
  LAMINA_DEVICE compute_t<T> operator()(int64_t channel, int64_t k) const {
    const int64_t own = filters / groups;
    return widen(w[(k / own * channels + channel) * filters + group * own + k % own]);
  }
};
template <class T>
struct StoreColumns {
  T* data;
  int64_t width, per_group, group = 0;
  LAMINA_DEVICE void start(int64_t batch) { group = batch; }
  LAMINA_DEVICE void operator()(int64_t row, int64_t column, compute_t<T> v) const {
    data[row * width + group * per_group + column] = narrow<T>(v);
  }
};

}  // namespace

template <class T>
void conv2d(Stream& stream, const View& x, const View& w, const View& y, ConvSizes s) {
  if (library_convolution(stream, lamina::cuda::ConvolutionKind::forward, s, x, w, y)) return;
  const int64_t own = s.filters / s.groups;
  product<compute_t<T>>(stream, PlacesByWindow<T>{{x.as<const T>(), s}}, GroupColumns<T>{w.as<const T>(), s.filters, own},
                        StoreColumns<T>{y.as<T>(), s.filters, own}, s.groups, s.images * s.out_height * s.out_width, own,
                        s.window_height * s.window_width * (s.channels / s.groups));
}

template <class T>
void conv2d_grad_input(Stream& stream, const View& dy, const View& w, const View& dx, ConvSizes s) {
  if (library_convolution(stream, lamina::cuda::ConvolutionKind::grad_input, s, dy, w, dx)) return;
  const int64_t channels = s.channels / s.groups;
  product<compute_t<T>>(stream, Reaching<T>{dy.as<const T>(), s}, TurnedFilters<T>{w.as<const T>(), channels, s.filters, s.groups},
                        StoreColumns<T>{dx.as<T>(), s.channels, channels}, s.groups, s.images * s.height * s.width, channels,
                        s.window_height * s.window_width * (s.filters / s.groups));
}

template <class T>
void conv2d_grad_filter(Stream& stream, const View& x, const View& dy, const View& dw, ConvSizes s) {
  if (library_convolution(stream, lamina::cuda::ConvolutionKind::grad_filter, s, x, dy, dw)) return;
  const int64_t own = s.filters / s.groups;
  product<compute_t<T>>(stream, WindowByPlaces<T>{{x.as<const T>(), s}}, GroupColumns<T>{dy.as<const T>(), s.filters, own},
                        StoreColumns<T>{dw.as<T>(), s.filters, own}, s.groups, s.window_height * s.window_width * (s.channels / s.groups),
                        own, s.images * s.out_height * s.out_width);
}

namespace {
const GpuKernels<LAMINA_FLOATING(conv2d), LAMINA_FLOATING(conv2d_grad_input), LAMINA_FLOATING(conv2d_grad_filter)> registered;
}

}  // namespace lamina::kernels::cuda
