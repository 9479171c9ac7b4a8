// The other layers of fake_cudnn.h: pooling and normalisation.
#pragma once
#include <cmath>
#include <limits>

#include "tests/cuda/fake_cudnn_state.h"

namespace lamina::cuda::fake_layers {

using F = FakeCudnn;

struct Windows {
  F::Tensor x, y;
  F::Pooling p;

  // The element of x that window (i, j) of an image and channel selects: the first maximum outside the padding; a NaN if there is one.
  int64_t chosen(const void* data, int64_t n, int64_t i, int64_t j, int64_t c) const {
    int64_t best = -1;
    for (int64_t row = i * p.stride_h - p.pad_h; row < i * p.stride_h - p.pad_h + p.window_h; ++row)
      for (int64_t column = j * p.stride_w - p.pad_w; column < j * p.stride_w - p.pad_w + p.window_w; ++column) {
        if (row < 0 || row >= x.h || column < 0 || column >= x.w) continue;
        const int64_t at = ((n * x.h + row) * x.w + column) * x.c + c;
        const double v = F::read(x.type, data, at), most = best < 0 ? 0 : F::read(x.type, data, best);
        if (best < 0 || v > most || (std::isnan(v) && !std::isnan(most))) best = at;
      }
    return best;
  }
  template <class Each>
  void each(const void* data, Each&& each) const {
    int64_t at = 0;
    for (int64_t n = 0; n < y.n; ++n)
      for (int64_t i = 0; i < y.h; ++i)
        for (int64_t j = 0; j < y.w; ++j)
          for (int64_t c = 0; c < y.c; ++c, ++at) each(at, chosen(data, n, i, j, c));
  }
};

inline bool look(F& f, void* handle, void* pooling, void* x, void* y, Windows& out) {
  f.expect(f.live.count(handle) == 1, "no handle");
  if (!f.tensors.count(x) || !f.tensors.count(y) || !f.poolings.count(pooling))
    return f.expect(false, "a descriptor that is not there, or another one's"), false;
  out = {f.tensors[x], f.tensors[y], f.poolings[pooling]};
  const F::Pooling& p = out.p;
  f.expect(p.mode == cudnn::kMaxDeterministic, "the mode is not the deterministic maximum");
  f.expect(p.nan == cudnn::kPropagateNan, "NaN is passed over");
  f.expect(out.x.type == out.y.type && out.x.n == out.y.n && out.x.c == out.y.c, "types, images or channels differ");
  f.expect(p.pad_h < p.window_h && p.pad_w < p.window_w, "a window in the padding alone");
  f.expect(out.y.h == 1 + (out.x.h + 2 * p.pad_h - p.window_h) / p.stride_h, "the result's height");
  f.expect(out.y.w == 1 + (out.x.w + 2 * p.pad_w - p.window_w) / p.stride_w, "the result's width");
  return f.complaints.empty();
}

inline int pool(void* handle, void* pooling, const void* alpha, void* x, const void* x_data, const void* beta, void* y, void* y_data) {
  F& f = F::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call("cudnnPoolingForward")) return status;
  Windows w;
  if (!look(f, handle, pooling, x, y, w)) return 2000;
  f.look_at(w.x.type, alpha, beta, {x_data, y_data});
  if (!f.complaints.empty()) return 2000;
  w.each(x_data, [&](int64_t at, int64_t from) { F::write(w.y.type, y_data, at, F::read(w.x.type, x_data, from)); });
  f.made(handle);
  return 0;
}

inline int pool_gradient(void* handle, void* pooling, const void* alpha, void* y, const void* y_data, void* dy, const void* dy_data,
                         void* x, const void* x_data, const void* beta, void* dx, void* dx_data) {
  F& f = F::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call("cudnnPoolingBackward")) return status;
  Windows w, gradients;
  if (!look(f, handle, pooling, x, y, w) || !look(f, handle, pooling, dx, dy, gradients)) return 2000;
  f.look_at(w.x.type, alpha, beta, {y_data, dy_data, x_data, dx_data});
  if (!f.complaints.empty()) return 2000;
  std::vector<double> sums(size_t(w.x.n) * size_t(w.x.c) * size_t(w.x.h) * size_t(w.x.w));
  w.each(x_data, [&](int64_t at, int64_t from) {
    const double best = F::read(w.y.type, y_data, at), v = F::read(w.x.type, x_data, from);
    f.expect(v == best || (std::isnan(v) && std::isnan(best)), "y is not x's pooling");
    sums[size_t(from)] += F::read(w.y.type, dy_data, at);
  });
  for (size_t e = 0; e < sums.size(); ++e) F::write(w.x.type, dx_data, int64_t(e), sums[e]);
  f.made(handle);
  return 0;
}

inline int norm_derive(void* of_channels, void* x, int mode) {
  F& f = F::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call("cudnnDeriveBNTensorDescriptor")) return status;
  if (!f.tensors.count(of_channels) || !f.tensors.count(x)) return f.expect(false, "a descriptor that is not there"), 2000;
  f.expect(mode == cudnn::kSpatial, "the mode is not the spatial one");
  const F::Tensor& t = f.tensors[x];
  f.tensors[of_channels] = {t.type == cudnn::kDouble ? cudnn::kDouble : cudnn::kFloat, 1, t.c, 1, 1};
  return 0;
}

// The tensors of a normalisation, and its per-channel vectors. The lock must be held.
struct Norm {
  F::Tensor x, channels;
  int64_t rows() const { return int64_t(x.n) * x.h * x.w; }
  double read(const void* vector, int64_t c) const { return F::read(channels.type, vector, c); }
  void write(void* vector, int64_t c, double v) const { F::write(channels.type, vector, c, v); }
};
inline bool look(F& f, void* handle, int mode, std::initializer_list<void*> tensors, void* of_channels,
                 std::initializer_list<const void*> vectors, double epsilon, Norm& out) {
  f.expect(f.live.count(handle) == 1, "no handle");
  f.expect(mode == cudnn::kSpatial, "the mode is not the spatial one");
  f.expect(epsilon >= 0, "epsilon is negative");
  for (void* t : tensors)
    if (!f.tensors.count(t)) return f.expect(false, "a descriptor that is not there, or another one's"), false;
  if (!f.tensors.count(of_channels)) return f.expect(false, "no descriptor of the channels"), false;
  out = {f.tensors[*tensors.begin()], f.tensors[of_channels]};
  for (void* t : tensors) {
    const F::Tensor& other = f.tensors[t];
    f.expect(other.type == out.x.type && other.n == out.x.n && other.c == out.x.c && other.h == out.x.h && other.w == out.x.w,
             "tensors differ");
  }
  f.expect(out.channels.c == out.x.c && out.channels.n == 1 &&
               out.channels.type == (out.x.type == cudnn::kDouble ? cudnn::kDouble : cudnn::kFloat),
           "the descriptor of the channels is not derived from x's");
  for (const void* v : vectors) f.expect(v && uintptr_t(v) % 16 == 0, "a vector that is missing or not aligned");
  return f.complaints.empty();
}

inline int normalize(void* handle, int mode, const void* alpha, const void* beta, void* x, const void* x_data, void* y, void* y_data,
                     void* of_channels, const void* scale, const void* bias, double average_factor, void* running_mean,
                     void* running_variance, double epsilon, void* saved_mean, void* saved_inverse_deviation) {
  F& f = F::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call("cudnnBatchNormalizationForwardTraining")) return status;
  Norm t;
  if (!look(f, handle, mode, {x, y}, of_channels, {scale, bias, running_mean, running_variance, saved_mean, saved_inverse_deviation},
            epsilon, t))
    return 2000;
  f.look_at(t.x.type, alpha, beta, {x_data, y_data});
  f.expect(average_factor == 1, "old averages are mixed in");
  if (!f.complaints.empty()) return 2000;
  for (int64_t c = 0; c < t.x.c; ++c) {
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < t.rows(); ++r) sum += F::read(t.x.type, x_data, r * t.x.c + c);
    const double mean = sum / double(t.rows());
    for (int64_t r = 0; r < t.rows(); ++r) squares += std::pow(F::read(t.x.type, x_data, r * t.x.c + c) - mean, 2);
    const double inverse = 1 / std::sqrt(squares / double(t.rows()) + epsilon);
    for (int64_t r = 0; r < t.rows(); ++r)
      F::write(t.x.type, y_data, r * t.x.c + c,
               (F::read(t.x.type, x_data, r * t.x.c + c) - mean) * inverse * t.read(scale, c) + t.read(bias, c));
    // 0 times NaN is NaN: the old value must be a number.
    t.write(running_mean, c, mean + t.read(running_mean, c) * (1 - average_factor));
    t.write(running_variance, c, squares / double(t.rows() - 1) + t.read(running_variance, c) * (1 - average_factor));
    t.write(saved_mean, c, mean), t.write(saved_inverse_deviation, c, inverse);
  }
  f.made(handle);
  return 0;
}

inline int normalize_gradient(void* handle, int mode, const void* alpha_data, const void* beta_data, const void* alpha_parameters,
                              const void* beta_parameters, void* x, const void* x_data, void* dy, const void* dy_data, void* dx,
                              void* dx_data, void* of_channels, const void* scale, void* dscale, void* dbias, double epsilon,
                              const void* saved_mean, const void* saved_inverse_deviation) {
  F& f = F::now();
  std::lock_guard lock(f.mutex);
  if (const int status = f.call("cudnnBatchNormalizationBackward")) return status;
  Norm t;
  if (!look(f, handle, mode, {x, dy, dx}, of_channels, {scale, dscale, dbias}, epsilon, t)) return 2000;
  const bool half = t.x.type == cudnn::kHalf || t.x.type == cudnn::kBfloat16;
  f.expect(!saved_mean == half && !saved_inverse_deviation == half, "saved vectors that were rounded, or none where there are good ones");
  f.expect(uintptr_t(saved_mean) % 16 == 0 && uintptr_t(saved_inverse_deviation) % 16 == 0, "a saved vector is not aligned");
  f.look_at(t.x.type, alpha_data, beta_data, {x_data, dy_data, dx_data});
  f.look_at(t.x.type, alpha_parameters, beta_parameters, {});
  if (!f.complaints.empty()) return 2000;
  for (int64_t c = 0; c < t.x.c; ++c) {
    const double rows = double(t.rows());
    double mean = 0, inverse = 0;
    if (saved_mean) {
      mean = t.read(saved_mean, c), inverse = t.read(saved_inverse_deviation, c);
    } else {  // it then computes them again
      for (int64_t r = 0; r < t.rows(); ++r) mean += F::read(t.x.type, x_data, r * t.x.c + c) / rows;
      for (int64_t r = 0; r < t.rows(); ++r) inverse += std::pow(F::read(t.x.type, x_data, r * t.x.c + c) - mean, 2) / rows;
      inverse = 1 / std::sqrt(inverse + epsilon);
    }
    const auto hat = [&](int64_t r) { return (F::read(t.x.type, x_data, r * t.x.c + c) - mean) * inverse; };
    double sum = 0, along = 0;
    for (int64_t r = 0; r < t.rows(); ++r) {
      const double g = F::read(t.x.type, dy_data, r * t.x.c + c);
      sum += g, along += g * hat(r);
    }
    for (int64_t r = 0; r < t.rows(); ++r)
      F::write(t.x.type, dx_data, r * t.x.c + c,
               t.read(scale, c) * inverse * (F::read(t.x.type, dy_data, r * t.x.c + c) - sum / rows - hat(r) * along / rows));
    t.write(dscale, c, along), t.write(dbias, c, sum);
  }
  f.made(handle);
  return 0;
}

}  // namespace lamina::cuda::fake_layers
