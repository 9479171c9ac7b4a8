// Compiled once per instruction set (LAMINA_ISA). The compiler vectorizes the loops over lanes and columns; all give the same bits.
#include <limits>

#include "kernels/cpu/softmax_table.h"
#include "kernels/shared/scalar_ops.h"

namespace lamina::kernels::cpu::LAMINA_ISA {
namespace {

namespace ops = lamina::kernels::scalar;

constexpr int kLanes = 16;
constexpr int64_t kBlock = 256;  // exponentials kept at a time

// ivdep: y may be x.
template <bool log, class T>
void row(const T* x, T* y, int64_t n) {
  T lane[kLanes];
  for (int j = 0; j < kLanes; ++j) lane[j] = -std::numeric_limits<T>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lane[j] = lane[j] < x[i + j] ? x[i + j] : lane[j];
  for (int j = 0; i + j < n; ++j) lane[j] = lane[j] < x[i + j] ? x[i + j] : lane[j];
  T high = lane[0];
  for (int j = 1; j < kLanes; ++j) high = high < lane[j] ? lane[j] : high;

  double sums[kLanes] = {};
  T kept[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = n - begin < kBlock ? n - begin : kBlock;
    const T* from = x + begin;
    T* to = log ? kept : y + begin;
#pragma GCC ivdep
    for (i = 0; i < count; ++i) to[i] = ops::exp(from[i] - high);
    for (i = 0; i + kLanes <= count; i += kLanes)
      for (int j = 0; j < kLanes; ++j) sums[j] += double(to[i + j]);
    for (int j = 0; i + j < count; ++j) sums[j] += double(to[i + j]);
  }
  for (int half = kLanes / 2; half; half /= 2)
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  const T scale = T(log ? ops::log(sums[0]) : sums[0]);
#pragma GCC ivdep
  for (i = 0; i < n; ++i) y[i] = log ? x[i] - high - scale : y[i] / scale;
}

template <bool log, class T>
void columns(const T* x, T* y, int64_t n, int64_t stride, int64_t count) {
  T high[kSoftmaxColumns], kept[kSoftmaxColumns];
  double sum[kSoftmaxColumns];
  for (int64_t j = 0; j < count; ++j) high[j] = -std::numeric_limits<T>::infinity(), sum[j] = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < count; ++j) high[j] = high[j] < x[i * stride + j] ? x[i * stride + j] : high[j];
  for (int64_t i = 0; i < n; ++i) {
    T* to = log ? kept : y + i * stride;
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) to[j] = ops::exp(x[i * stride + j] - high[j]);
    for (int64_t j = 0; j < count; ++j) sum[j] += double(to[j]);
  }
  for (int64_t j = 0; j < count; ++j) kept[j] = T(log ? ops::log(sum[j]) : sum[j]);
  for (int64_t i = 0; i < n; ++i)
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) y[i * stride + j] = log ? x[i * stride + j] - high[j] - kept[j] : y[i * stride + j] / kept[j];
}

template <bool log, class T>
constexpr SoftmaxLoops<T> loops{row<log, T>, columns<log, T>};

}  // namespace

extern const SoftmaxTable softmax_table = {.f32 = {loops<false, float>, loops<true, float>},
                                           .f64 = {loops<false, double>, loops<true, double>}};

}  // namespace lamina::kernels::cpu::LAMINA_ISA
