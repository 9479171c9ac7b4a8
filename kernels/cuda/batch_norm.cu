// Our own kernels give the bits of the op's nodes (graph/ops/batch_norm.cpp), with sums as in kernels/reduce.h. Terms of a sum are stored
// where the result will be. Memory-bound and slower than the library: used where it refuses.
#include "kernels/batch_norm.h"

#include <optional>

#include "kernels/cuda/element.h"
#include "kernels/cuda/library_batch_norm.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"
#include "kernels/reduce.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cuda {
namespace {

// Per-channel values that elements of gradient and result need. gamma, beta: null for 1 and 0.
template <class T>
struct Channels {
  const T *mean, *variance, *gamma, *beta;
  double epsilon;
  int64_t count;

  LAMINA_DEVICE T deviation(const T* x, int64_t at) const { return x[at] - mean[at % count]; }
  LAMINA_DEVICE T inverse(int64_t c) const { return scalar::rsqrt(variance[c] + T(epsilon)); }
  LAMINA_DEVICE T slope(int64_t c) const { return gamma ? inverse(c) * gamma[c] : inverse(c); }
};

template <class T>
LAMINA_KERNEL(256)
squared_deviations(const T* x, T* out, Channels<T> channels, int64_t size) {
  for (int64_t at = first_element(); at < size; at += all_threads()) {
    const T d = channels.deviation(x, at);
    out[at] = d * d;
  }
}
template <class T>
LAMINA_KERNEL(256)
normalized(const T* x, T* y, Channels<T> channels, int64_t size) {
  for (int64_t at = first_element(); at < size; at += all_threads()) {
    const int64_t c = at % channels.count;
    const T v = channels.deviation(x, at) * channels.slope(c);
    y[at] = channels.beta ? v + channels.beta[c] : v;
  }
}

// The gradient: sums over rows of dslope's terms, of -dy slope and of -ddeviation, then dx.
enum class Part { slope, mean, deviation, x };
template <class T, Part part>
LAMINA_KERNEL(256)
gradient_parts(const T* x, const T* dy, T* out, Channels<T> channels, const T* dsquare, const T* dmean, const T* dcenter, double rows,
               int64_t size) {
  for (int64_t at = first_element(); at < size; at += all_threads()) {
    const int64_t c = at % channels.count;
    const T g = dy[at];
    if constexpr (part == Part::slope) out[at] = g * channels.deviation(x, at);
    if constexpr (part == Part::mean) out[at] = -(g * channels.slope(c));
    if constexpr (part == Part::deviation || part == Part::x) {
      const T d = channels.deviation(x, at), through = dsquare[c] * (d + d);
      if constexpr (part == Part::deviation) {
        out[at] = -through;
      } else {
        const T direct = g * channels.slope(c) + through;
        out[at] = direct + (dmean[c] + dcenter[c]) / T(rows);
      }
    }
  }
}
// Per channel: from dslope the gradients of gamma and of a squared deviation.
template <class T>
LAMINA_KERNEL(256)
channel_gradients(const T* dslope, T* dgamma, T* dsquare, Channels<T> channels, double rows) {
  for (int64_t c = first_element(); c < channels.count; c += all_threads()) {
    const T inverse = channels.inverse(c), d = dslope[c], dinverse = channels.gamma ? d * channels.gamma[c] : d;
    if (dgamma) dgamma[c] = d * inverse;
    const T dvariance = (dinverse * T(-0.5)) * (inverse * (inverse * inverse));
    dsquare[c] = dvariance / T(rows);
  }
}

// The library's per-channel vectors, n numbers apart.
template <class T>
LAMINA_KERNEL(256)
library_forward_vectors(const T* gamma, const T* beta, T* vectors, int64_t n, int64_t channels) {
  for (int64_t c = first_element(); c < channels; c += all_threads()) {
    vectors[c] = gamma ? gamma[c] : T(1);
    vectors[n + c] = beta ? beta[c] : T(0);
    vectors[2 * n + c] = vectors[3 * n + c] = T(0);
  }
}
template <class T>
LAMINA_KERNEL(256)
library_moments(const T* saved_mean, const T* unbiased, T* mean, T* variance, double rows, int64_t channels) {
  for (int64_t c = first_element(); c < channels; c += all_threads()) {
    mean[c] = saved_mean[c];
    variance[c] = unbiased[c] * T((rows - 1) / rows);
  }
}
template <class T>
LAMINA_KERNEL(256)
library_gradient_vectors(Channels<T> channels, T* vectors, int64_t n) {
  for (int64_t c = first_element(); c < channels.count; c += all_threads()) {
    vectors[c] = channels.gamma ? channels.gamma[c] : T(1);
    vectors[n + c] = channels.mean[c];
    vectors[2 * n + c] = scalar::rsqrt(channels.variance[c] + T(channels.epsilon));
  }
}
template <class T>
LAMINA_KERNEL(256)
library_gradients(const T* dscale, const T* dbias, T* dgamma, T* dbeta, int64_t channels) {
  for (int64_t c = first_element(); c < channels; c += all_threads()) {
    if (dgamma) dgamma[c] = dscale[c];
    if (dbeta) dbeta[c] = dbias[c];
  }
}

int64_t aligned(int64_t count) { return (count + 63) / 64 * 64; }
uint32_t rows_of(const View& x) { return (uint32_t{1} << (x.rank - 1)) - 1; }
View vector(void* data, DType dtype, int64_t count) {
  View v;
  v.data = data, v.dtype = dtype, v.rank = 1, v.shape[0] = count, v.strides[0] = 1;
  return v;
}

}  // namespace

template <class T>
void batch_norm_train(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, BatchNormArgs args) {
  const View &x = *in[0], &y = *out[0], &mean = *out[1], &variance = *out[2];
  const int64_t size = x.size(), count = mean.size(), n = aligned(count);
  const T *gamma = args.scale ? in[1]->as<const T>() : nullptr, *beta = args.center ? in.back()->as<const T>() : nullptr;
  if (count == 0) return;
  {
    std::optional<Scratch<T>> vectors;
    const auto prepare = [&] {
      T* v = vectors.emplace(stream, 6 * n).data();
      launch<library_forward_vectors<T>>(stream, over(count), gamma, beta, v, n, count);
      return lamina::cuda::BatchNorm::Forward{v, v + n, v + 2 * n, v + 3 * n, v + 4 * n, v + 5 * n};
    };
    if (library_batch_norm(stream, x, y, args.epsilon, prepare)) {
      const T* v = vectors->data();
      launch<library_moments<T>>(stream, over(count), v + 4 * n, v + 3 * n, mean.as<T>(), variance.as<T>(), double(size / count), count);
      return;
    }
  }
  const Channels<T> channels{mean.as<const T>(), variance.as<const T>(), gamma, beta, args.epsilon, count};
  reduce(stream, x, mean, section::Reduction::mean, rows_of(x));
  if (size > 0) launch<squared_deviations<T>>(stream, over(size), x.as<const T>(), y.as<T>(), channels, size);
  reduce(stream, y, variance, section::Reduction::mean, rows_of(x));
  if (size > 0) launch<normalized<T>>(stream, over(size), x.as<const T>(), y.as<T>(), channels, size);
}

template <class T>
void batch_norm_train_grad(Stream& stream, std::span<const View* const> in, std::span<const View* const> out, BatchNormArgs args) {
  const View &x = *in[0], &mean = *in[in.size() - 3], &variance = *in[in.size() - 2], &dy = *in.back(), &dx = *out[0];
  const int64_t size = x.size(), count = mean.size(), n = aligned(count);
  if (count == 0) return;
  T* dgamma = args.scale ? out[1]->as<T>() : nullptr;
  const View* dbeta = args.center ? out.back() : nullptr;
  const Channels<T> channels{
      mean.as<const T>(), variance.as<const T>(), args.scale ? in[1]->as<const T>() : nullptr, nullptr, args.epsilon, count};
  {
    std::optional<Scratch<T>> vectors;
    const auto prepare = [&] {
      T* v = vectors.emplace(stream, 5 * n).data();
      launch<library_gradient_vectors<T>>(stream, over(count), channels, v, n);
      return lamina::cuda::BatchNorm::Gradient{v, v + n, v + 2 * n, v + 3 * n, v + 4 * n};
    };
    if (library_batch_norm_gradient(stream, x, dy, dx, args.epsilon, prepare)) {
      const T* v = vectors->data();
      launch<library_gradients<T>>(stream, over(count), v + 3 * n, v + 4 * n, dgamma, dbeta ? dbeta->as<T>() : nullptr, count);
      return;
    }
  }
  const Scratch<T> vectors(stream, 4 * n);
  T *dslope = vectors.data(), *dmean = dslope + n, *dcenter = dmean + n, *dsquare = dcenter + n;
  const double rows = double(size / count);
  const auto parts = [&]<Part part>() {
    if (size > 0)
      launch<gradient_parts<T, part>>(stream, over(size), x.as<const T>(), dy.as<const T>(), dx.as<T>(), channels, dsquare, dmean, dcenter,
                                      rows, size);
  };
  const auto sum = [&](const View& of, T* to) { reduce(stream, of, vector(to, x.dtype, count), section::Reduction::sum, rows_of(x)); };
  if (dbeta) sum(dy, dbeta->as<T>());
  parts.template operator()<Part::slope>();
  sum(dx, dslope);
  parts.template operator()<Part::mean>();
  sum(dx, dmean);
  launch<channel_gradients<T>>(stream, over(count), dslope, dgamma, dsquare, channels, rows);
  parts.template operator()<Part::deviation>();
  sum(dx, dcenter);
  parts.template operator()<Part::x>();
}

namespace {
const GpuKernels<&batch_norm_train<float>, &batch_norm_train<double>, &batch_norm_train_grad<float>, &batch_norm_train_grad<double>>
    registered;
}

}  // namespace lamina::kernels::cuda
