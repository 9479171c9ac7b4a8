// Convolutions as matrix products: a panel of patches (one row per window position, with all elements under the window) times the filters.
// Panels are of bounded size and stay in the L2 cache, so the whole patch matrix never exists. With one channel and one filter per group
// there is no matrix product; those run over channels directly.
#include "kernels/conv2d.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/cpu/indices.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/cpu/shared_out.h"
#include "kernels/cpu/tiles.h"
#include "kernels/section/table.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kPanelBytes = 192 << 10;
constexpr int64_t kLeastRows = 24, kMostRows = 1536;
constexpr double kConvFlopsPerThread = 1e6;

// Everything about one convolution that its loops need.
struct Plan {
  explicit Plan(const ConvSizes& sizes) : s(sizes) {
    group_channels = s.channels / s.groups, group_filters = s.filters / s.groups;
    patch = s.window_height * s.window_width * group_channels;
    places = s.out_height * s.out_width;
    rows = s.images * places;
  }
  template <class C>
  int64_t panel_rows() const {
    const int64_t fitting = kPanelBytes / int64_t(sizeof(C)) / std::max<int64_t>(1, patch);
    return std::clamp<int64_t>(fitting / 6 * 6, kLeastRows, kMostRows);
  }
  double flops() const { return 2.0 * double(rows) * double(patch) * double(s.filters); }
  bool by_channel() const { return group_channels == 1 && group_filters == 1; }
  // x itself is the matrix of patches.
  bool pointwise() const {
    return s.window_height == 1 && s.window_width == 1 && s.stride_height == 1 && s.stride_width == 1 && s.before_height == 0 &&
           s.before_width == 0 && s.height == s.out_height && s.width == s.out_width;
  }
  const ConvSizes& s;
  int64_t group_channels, group_filters;
  int64_t patch;   // elements under the window, in one group
  int64_t places;  // window positions in an image
  int64_t rows;    // rows of the patch matrix
};

// Calls f(part) on as many threads as the work justifies, each with its part of `count`.
template <class F>
void in_parallel(Stream& stream, int64_t count, double flops, const F& f) {
  share_out(stream, count, flops / kConvFlopsPerThread, [&](int64_t begin, int64_t end) {
    if (begin < end) f(Range{begin, end});
  });
}

// The window's position.
struct Place {
  int64_t image, i, j;
};
Place place_of(const Plan& p, int64_t row) {
  const int64_t image = row / p.places, rest = row % p.places;
  return {image, rest / p.s.out_width, rest % p.s.out_width};
}

template <class From, class To>
void convert(const From* from, int64_t count, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, size_t(count) * sizeof(From));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = To(from[i]);
  }
}

// Columns [k.begin, k.end) of one group's patches in `rows`, as a matrix `to`.
template <class T, class C>
void gather_patches(const Plan& p, const T* x, int64_t group, Range rows, Range k, C* to) {
  const ConvSizes& s = p.s;
  const int64_t depth = p.group_channels, width = k.end - k.begin;
  const bool runs = s.groups == 1 && s.dilation_width == 1;  // a row of the window is contiguous in x
  for (int64_t row = rows.begin; row < rows.end; ++row, to += width) {
    const Place at = place_of(p, row);
    const int64_t left = at.j * s.stride_width - s.before_width;
    C* out = to;
    for (int64_t a = k.begin / (s.window_width * depth); a < s.window_height; ++a) {
      const int64_t first = a * s.window_width * depth, from = std::max(k.begin, first),
                    until = std::min(k.end, first + s.window_width * depth);
      if (from >= until) break;
      const int64_t y = at.i * s.stride_height - s.before_height + a * s.dilation_height;
      if (y < 0 || y >= s.height) {
        std::fill(out, out + (until - from), C(0));
        out += until - from;
        continue;
      }
      const T* line = x + ((at.image * s.height + y) * s.width) * s.channels + group * depth;
      if (runs && left >= 0 && left + s.window_width <= s.width) {
        convert(line + left * s.channels + (from - first), until - from, out);
        out += until - from;
        continue;
      }
      for (int64_t b = (from - first) / depth; b < s.window_width; ++b) {
        const int64_t begin = std::max(from, first + b * depth), end = std::min(until, first + (b + 1) * depth);
        if (begin >= end) break;
        const int64_t column = left + b * s.dilation_width;
        if (column < 0 || column >= s.width)
          std::fill(out, out + (end - begin), C(0));
        else
          convert(line + column * s.channels + (begin - first - b * depth), end - begin, out);
        out += end - begin;
      }
    }
  }
}

// Adds the patches' gradients where they were gathered from. `rows` are in one image; dx is that image's.
template <class C>
void scatter_patches(const Plan& p, const C* patches, int64_t group, Range rows, C* dx) {
  const ConvSizes& s = p.s;
  const int64_t depth = p.group_channels;
  for (int64_t row = rows.begin; row < rows.end; ++row, patches += p.patch) {
    const Place at = place_of(p, row);
    const int64_t left = at.j * s.stride_width - s.before_width;
    for (int64_t a = 0; a < s.window_height; ++a) {
      const int64_t y = at.i * s.stride_height - s.before_height + a * s.dilation_height;
      if (y < 0 || y >= s.height) continue;
      C* line = dx + y * s.width * s.channels + group * depth;
      for (int64_t b = 0; b < s.window_width; ++b) {
        const int64_t column = left + b * s.dilation_width;
        if (column < 0 || column >= s.width) continue;
        C* to = line + column * s.channels;
        const C* from = patches + (a * s.window_width + b) * depth;
        for (int64_t c = 0; c < depth; ++c) to[c] += from[c];
      }
    }
  }
}

// The filters as C; `kept` holds them if they are converted.
template <class T, class C>
const C* as_computed(const T* from, int64_t count, std::vector<C>& kept) {
  if constexpr (std::is_same_v<T, C>) {
    return from;
  } else {
    kept.resize(size_t(count));
    convert(from, count, kept.data());
    return kept.data();
  }
}

// --- one channel and one filter per group ---

// Calls f(position in x's image, tap) for each tap of the window at (i, j) inside of x.
template <class F>
void each_tap(const ConvSizes& s, int64_t i, int64_t j, F f) {
  for (int64_t a = 0; a < s.window_height; ++a) {
    const int64_t y = i * s.stride_height - s.before_height + a * s.dilation_height;
    if (y < 0 || y >= s.height) continue;
    for (int64_t b = 0; b < s.window_width; ++b) {
      const int64_t column = j * s.stride_width - s.before_width + b * s.dilation_width;
      if (column >= 0 && column < s.width) f(y * s.width + column, a * s.window_width + b);
    }
  }
}

template <class T, class C>
void conv_by_channel(Stream& stream, const Plan& p, const T* x, const T* w, T* y) {
  const int64_t n = p.s.channels;
  in_parallel(stream, p.rows, p.flops(), [&](Range rows) {
    std::vector<C> sum(static_cast<size_t>(n));
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const Place at = place_of(p, row);
      const T* image = x + at.image * p.s.height * p.s.width * n;
      std::fill(sum.begin(), sum.end(), C(0));
      C* to = sum.data();
      each_tap(p.s, at.i, at.j, [&](int64_t place, int64_t tap) {
        const T *from = image + place * n, *weight = w + tap * n;
        for (int64_t c = 0; c < n; ++c) to[c] += C(from[c]) * C(weight[c]);
      });
      for (int64_t c = 0; c < n; ++c) y[row * n + c] = T(to[c]);
    }
  });
}

template <class T, class C>
void grad_input_by_channel(Stream& stream, const Plan& p, const T* dy, const T* w, T* dx) {
  const int64_t n = p.s.channels, size = p.s.height * p.s.width * n;
  in_parallel(stream, p.s.images, p.flops(), [&](Range images) {
    std::vector<C> sum(static_cast<size_t>(size));
    for (int64_t image = images.begin; image < images.end; ++image) {
      std::fill(sum.begin(), sum.end(), C(0));
      C* all = sum.data();
      for (int64_t row = image * p.places; row < (image + 1) * p.places; ++row) {
        const Place at = place_of(p, row);
        each_tap(p.s, at.i, at.j, [&](int64_t place, int64_t tap) {
          C* to = all + place * n;
          const T *from = dy + row * n, *weight = w + tap * n;
          for (int64_t c = 0; c < n; ++c) to[c] += C(from[c]) * C(weight[c]);
        });
      }
      convert(sum.data(), size, dx + image * size);
    }
  });
}

template <class T, class C>
void grad_filter_by_channel(Stream& stream, const Plan& p, const T* x, const T* dy, T* dw) {
  const int64_t n = p.s.channels, taps = p.s.window_height * p.s.window_width;
  in_parallel(stream, n, p.flops(), [&](Range channels) {
    const int64_t mine = channels.end - channels.begin;
    std::vector<C> sum(static_cast<size_t>(taps * mine));
    std::vector<double> total(p.rows > kLongSum ? sum.size() : 0);  // of blocks of rows, when there are many
    for (int64_t row = 0; row < p.rows; ++row) {
      if (!total.empty() && row % kSumBlock == 0) {
        for (size_t i = 0; i < sum.size(); ++i) total[i] += double(sum[i]);
        std::fill(sum.begin(), sum.end(), C(0));
      }
      const Place at = place_of(p, row);
      const T *image = x + at.image * p.s.height * p.s.width * n + channels.begin, *from = dy + row * n + channels.begin;
      each_tap(p.s, at.i, at.j, [&](int64_t place, int64_t tap) {
        C* to = sum.data() + tap * mine;
        const T* seen = image + place * n;
        for (int64_t c = 0; c < mine; ++c) to[c] += C(seen[c]) * C(from[c]);
      });
    }
    for (size_t i = 0; i < total.size(); ++i) sum[i] = C(total[i] + double(sum[i]));
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < mine; ++c) dw[tap * n + channels.begin + c] = T(sum[size_t(tap * mine + c)]);
  });
}

}  // namespace

template <class T>
void conv2d(Stream& stream, const View& x_view, const View& w_view, const View& y_view, ConvSizes sizes) {
  using C = compute_t<T>;
  const Plan p(sizes);
  const T *x = x_view.as<const T>(), *w = w_view.as<const T>();
  T* y = y_view.as<T>();
  if (y_view.size() == 0) return;
  if (p.patch == 0) return std::fill(y, y + y_view.size(), T(C(0)));
  if (p.by_channel()) return conv_by_channel<T, C>(stream, p, x, w, y);
  std::vector<C> kept;
  const C* filters = as_computed<T, C>(w, w_view.size(), kept);
  if constexpr (std::is_same_v<T, C>) {
    if (p.pointwise()) {
      for (int64_t g = 0; g < sizes.groups; ++g)
        matmul<C>(p.rows, p.group_filters, p.patch, x + g * p.group_channels, sizes.channels, false, filters + g * p.group_filters,
                  sizes.filters, false, y + g * p.group_filters, sizes.filters, stream.device);
      return;
    }
  }
  const int64_t high = p.panel_rows<C>(), panels = (p.rows + high - 1) / high;
  in_parallel(stream, panels, p.flops(), [&](Range part) {
    std::vector<C> patches(size_t(high * p.patch)), out(std::is_same_v<T, C> ? 0 : size_t(high * p.group_filters));
    for (int64_t panel = part.begin; panel < part.end; ++panel) {
      const Range rows{panel * high, std::min(p.rows, (panel + 1) * high)};
      for (int64_t g = 0; g < sizes.groups; ++g) {
        gather_patches(p, x, g, rows, {0, p.patch}, patches.data());
        auto product = [&](C* to, int64_t stride) {
          matmul<C>(rows.end - rows.begin, p.group_filters, p.patch, patches.data(), p.patch, false, filters + g * p.group_filters,
                    sizes.filters, false, to, stride, stream.device);
        };
        T* to = y + rows.begin * sizes.filters + g * p.group_filters;
        if constexpr (std::is_same_v<T, C>) {
          product(to, sizes.filters);
        } else {
          product(out.data(), p.group_filters);
          for (int64_t r = 0; r < rows.end - rows.begin; ++r)
            for (int64_t o = 0; o < p.group_filters; ++o) to[r * sizes.filters + o] = T(out[size_t(r * p.group_filters + o)]);
        }
      }
    }
  });
}

// Threads take whole images, because the patches of one image overlap and are added in order.
template <class T>
void conv2d_grad_input(Stream& stream, const View& dy_view, const View& w_view, const View& dx_view, ConvSizes sizes) {
  using C = compute_t<T>;
  const Plan p(sizes);
  const T *dy = dy_view.as<const T>(), *w = w_view.as<const T>();
  T* dx = dx_view.as<T>();
  if (dx_view.size() == 0) return;
  if (p.patch == 0 || p.rows == 0 || sizes.filters == 0) return std::fill(dx, dx + dx_view.size(), T(C(0)));
  if (p.by_channel()) return grad_input_by_channel<T, C>(stream, p, dy, w, dx);
  // The filters transposed per group: [filters, patch].
  std::vector<C> turned(size_t(sizes.filters * p.patch));
  for (int64_t k = 0; k < p.patch; ++k)
    for (int64_t o = 0; o < sizes.filters; ++o) turned[size_t(o * p.patch + k)] = C(w[k * sizes.filters + o]);
  const int64_t high = p.panel_rows<C>(), size = sizes.height * sizes.width * sizes.channels;
  in_parallel(stream, sizes.images, p.flops(), [&](Range images) {
    std::vector<C> patches(size_t(high * p.patch)), sum(std::is_same_v<T, C> ? 0 : size_t(size)),
        from(std::is_same_v<T, C> ? 0 : size_t(high * sizes.filters));
    for (int64_t image = images.begin; image < images.end; ++image) {
      C* to;
      if constexpr (std::is_same_v<T, C>)
        to = dx + image * size;
      else
        to = sum.data();
      std::fill(to, to + size, C(0));
      for (int64_t first = image * p.places; first < (image + 1) * p.places; first += high) {
        const Range rows{first, std::min(first + high, (image + 1) * p.places)};
        const int64_t count = rows.end - rows.begin;
        const C* gradients;
        if constexpr (std::is_same_v<T, C>) {
          gradients = dy + rows.begin * sizes.filters;
        } else {
          convert(dy + rows.begin * sizes.filters, count * sizes.filters, from.data());
          gradients = from.data();
        }
        for (int64_t g = 0; g < sizes.groups; ++g) {
          matmul<C>(count, p.patch, p.group_filters, gradients + g * p.group_filters, sizes.filters, false,
                    turned.data() + g * p.group_filters * p.patch, p.patch, false, patches.data(), p.patch, stream.device);
          scatter_patches(p, patches.data(), g, rows, to);
        }
      }
      if constexpr (!std::is_same_v<T, C>) convert(sum.data(), size, dx + image * size);
    }
  });
}

// Threads take parts of the patch, that is, rows of dw. Each sums over all window positions in order. If there are many, each panel is
// summed separately, and spans of panels are added with error compensation.
template <class T>
void conv2d_grad_filter(Stream& stream, const View& x_view, const View& dy_view, const View& dw_view, ConvSizes sizes) {
  using C = compute_t<T>;
  const Plan p(sizes);
  const T *x = x_view.as<const T>(), *dy = dy_view.as<const T>();
  T* dw = dw_view.as<T>();
  if (dw_view.size() == 0) return;
  if (p.rows == 0) return std::fill(dw, dw + dw_view.size(), T(C(0)));
  if (p.by_channel()) return grad_filter_by_channel<T, C>(stream, p, x, dy, dw);
  const Tiles& t = tiles();
  const int64_t high = std::min<int64_t>(p.panel_rows<C>(), 192);
  in_parallel(stream, p.patch, p.flops(), [&](Range k) {
    const int64_t wide = k.end - k.begin;
    std::vector<C> patches(size_t(high * wide)), sum(std::is_same_v<T, C> ? 0 : size_t(wide * p.group_filters)),
        from(std::is_same_v<T, C> ? 0 : size_t(high * sizes.filters));
    for (int64_t g = 0; g < sizes.groups; ++g) {
      T* to = dw + k.begin * sizes.filters + g * p.group_filters;
      const bool many = sizeof(C) == 4 && p.rows > kLongSum;
      auto add_rows = [&](int64_t begin, int64_t count, C* c, int64_t ldc) {
        for (int64_t first = begin; first < begin + count; first += high) {
          const Range rows{first, std::min(first + high, begin + count)};
          gather_patches(p, x, g, rows, k, patches.data());
          Product<C> q;
          q.m = wide, q.n = p.group_filters, q.k = rows.end - rows.begin;
          q.a = patches.data(), q.lda = wide, q.transpose_a = true;
          q.ldb = sizes.filters;
          q.c = c, q.ldc = ldc;
          q.accumulate = first > begin && !many, q.add = first > begin && many;
          if constexpr (std::is_same_v<T, C>) {
            q.b = dy + rows.begin * sizes.filters + g * p.group_filters;
          } else {
            convert(dy + rows.begin * sizes.filters, q.k * sizes.filters, from.data());
            q.b = from.data() + g * p.group_filters;
          }
          t.multiply(q);
        }
      };
      const int64_t span = many ? kSumSpan / kSumBlock * high : p.rows;
      if constexpr (std::is_same_v<T, C>)
        add_spans(wide, p.group_filters, p.rows, span, to, sizes.filters, add_rows);
      else
        add_spans(wide, p.group_filters, p.rows, span, sum.data(), p.group_filters, add_rows);
      if constexpr (!std::is_same_v<T, C>)
        for (int64_t r = 0; r < wide; ++r)
          for (int64_t o = 0; o < p.group_filters; ++o) to[r * sizes.filters + o] = T(sum[size_t(r * p.group_filters + o)]);
    }
  });
}

#define LAMINA_CONV(T)                                                                           \
  template void conv2d<T>(Stream&, const View&, const View&, const View&, ConvSizes);            \
  template void conv2d_grad_input<T>(Stream&, const View&, const View&, const View&, ConvSizes); \
  template void conv2d_grad_filter<T>(Stream&, const View&, const View&, const View&, ConvSizes);
LAMINA_CONV(f16)
LAMINA_CONV(bf16)
LAMINA_CONV(float)
LAMINA_CONV(double)
#undef LAMINA_CONV

}  // namespace lamina::kernels::cpu
