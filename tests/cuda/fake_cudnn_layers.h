// What fake_cudnn.h makes beside convolutions.
#pragma once
#include <cmath>
#include <limits>

#include "tests/cuda/fake_cudnn_state.h"

namespace lamina::cuda::fake_layers {

using F = FakeCudnn;

struct Windows {
  F::Tensor x, y;
  F::Pooling p;

  // The element of x that window (i, j) of an image and channel takes: the first of the largest ones that are no padding; a NaN if there is one.
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
  if (!f.tensors.count(x) || !f.tensors.count(y) || !f.poolings.count(pooling)) return f.expect(false, "a descriptor that is not there, or another one's"), false;
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

inline int pool_gradient(void* handle, void* pooling, const void* alpha, void* y, const void* y_data, void* dy, const void* dy_data, void* x, const void* x_data,
                         const void* beta, void* dx, void* dx_data) {
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

}  // namespace lamina::cuda::fake_layers
