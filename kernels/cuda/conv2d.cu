// Each of the three is a product (product.h), with one batch per group of channels. Image elements are located while tiles are loaded: a
// row of the product is a position in the result, and k runs over the window and the channels.
#include "kernels/conv2d.h"

#include "kernels/cuda/library_convolution.h"
#include "kernels/cuda/product.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

struct InWindow {
  int64_t row, column, channel;
};
// Elements under a window of that width, with `depth` channels or filters.
struct Window {
  Divider width, depth;
  LAMINA_DEVICE InWindow place(int64_t k) const {
    const int64_t channel = depth.split(k), column = width.split(k);
    return {k, column, channel};
  }
};

// The elements of x under the window: element (position in y, (a, b, c)); 0 outside of the image.
template <class T>
class Seen {
 public:
  Seen(const T* x, const ConvSizes& s)
      : x_(x),
        s_(s),
        images_{Divider(s.out_height), Divider(s.out_width)},
        window_{Divider(s.window_width), Divider(s.channels / s.groups)} {}
  LAMINA_DEVICE void start(int64_t batch) { first_channel_ = batch * window_.depth.length(); }
  LAMINA_DEVICE compute_t<T> at(int64_t place, int64_t k) const {
    const InWindow in = window_.place(k);
    const Place y = images_.place(place);
    const int64_t row = y.row * s_.stride_height + in.row * s_.dilation_height - s_.before_height;
    const int64_t column = y.column * s_.stride_width + in.column * s_.dilation_width - s_.before_width;
    if (row < 0 || row >= s_.height || column < 0 || column >= s_.width) return compute_t<T>(0);
    return widen(x_[((y.image * s_.height + row) * s_.width + column) * s_.channels + first_channel_ + in.channel]);
  }

 private:
  const T* x_;
  ConvSizes s_;
  Images images_;
  Window window_;
  int64_t first_channel_ = 0;
};
template <class T>
struct PlacesByWindow : Seen<T> {
  using Seen<T>::Seen;
  static constexpr bool depth_is_near = true;
  LAMINA_DEVICE compute_t<T> operator()(int64_t place, int64_t k) const { return this->at(place, k); }
};
template <class T>
struct WindowByPlaces : Seen<T> {
  using Seen<T>::Seen;
  static constexpr bool depth_is_near = false;
  LAMINA_DEVICE compute_t<T> operator()(int64_t k, int64_t place) const { return this->at(place, k); }
};

// The transpose: element (position in x, (a, b, filter)) of dy; 0 where the window has no position.
template <class T>
class Reaching {
 public:
  static constexpr bool depth_is_near = true;
  Reaching(const T* dy, const ConvSizes& s)
      : dy_(dy),
        s_(s),
        images_{Divider(s.height), Divider(s.width)},
        window_{Divider(s.window_width), Divider(s.filters / s.groups)},
        stride_height_(s.stride_height),
        stride_width_(s.stride_width) {}
  LAMINA_DEVICE void start(int64_t batch) { first_filter_ = batch * window_.depth.length(); }
  LAMINA_DEVICE compute_t<T> operator()(int64_t place, int64_t k) const {
    const InWindow in = window_.place(k);
    const Place x = images_.place(place);
    int64_t i = x.row + s_.before_height - in.row * s_.dilation_height, j = x.column + s_.before_width - in.column * s_.dilation_width;
    if (i < 0 || j < 0 || stride_height_.split(i) != 0 || stride_width_.split(j) != 0) return compute_t<T>(0);
    if (i >= s_.out_height || j >= s_.out_width) return compute_t<T>(0);
    return widen(dy_[((x.image * s_.out_height + i) * s_.out_width + j) * s_.filters + first_filter_ + in.channel]);
  }

 private:
  const T* dy_;
  ConvSizes s_;
  Images images_;
  Window window_;
  Divider stride_height_, stride_width_;
  int64_t first_filter_ = 0;
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
  int64_t channels, filters;  // channels per group
  Divider own;                // filters per group
  int64_t group = 0;
  static constexpr bool depth_is_near = true;
  LAMINA_DEVICE void start(int64_t batch) { group = batch; }
  LAMINA_DEVICE compute_t<T> operator()(int64_t channel, int64_t k) const {
    const int64_t filter = own.split(k);
    return widen(w[(k * channels + channel) * filters + group * own.length() + filter]);
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
  product<compute_t<T>>(stream, PlacesByWindow<T>(x.as<const T>(), s), GroupColumns<T>{w.as<const T>(), s.filters, own},
                        StoreColumns<T>{y.as<T>(), s.filters, own}, s.groups, s.images * s.out_height * s.out_width, own,
                        s.window_height * s.window_width * (s.channels / s.groups));
}

template <class T>
void conv2d_grad_input(Stream& stream, const View& dy, const View& w, const View& dx, ConvSizes s) {
  if (library_convolution(stream, lamina::cuda::ConvolutionKind::grad_input, s, dy, w, dx)) return;
  const int64_t channels = s.channels / s.groups;
  product<compute_t<T>>(stream, Reaching<T>(dy.as<const T>(), s),
                        TurnedFilters<T>{w.as<const T>(), channels, s.filters, Divider(s.filters / s.groups)},
                        StoreColumns<T>{dx.as<T>(), s.channels, channels}, s.groups, s.images * s.height * s.width, channels,
                        s.window_height * s.window_width * (s.filters / s.groups));
}

template <class T>
void conv2d_grad_filter(Stream& stream, const View& x, const View& dy, const View& dw, ConvSizes s) {
  if (library_convolution(stream, lamina::cuda::ConvolutionKind::grad_filter, s, x, dy, dw)) return;
  const int64_t own = s.filters / s.groups;
  product<compute_t<T>>(stream, WindowByPlaces<T>(x.as<const T>(), s), GroupColumns<T>{dy.as<const T>(), s.filters, own},
                        StoreColumns<T>{dw.as<T>(), s.filters, own}, s.groups, s.window_height * s.window_width * (s.channels / s.groups),
                        own, s.images * s.out_height * s.out_width);
}

namespace {
const GpuKernels<LAMINA_FLOATING(conv2d), LAMINA_FLOATING(conv2d_grad_input), LAMINA_FLOATING(conv2d_grad_filter)> registered;
}

}  // namespace lamina::kernels::cuda
