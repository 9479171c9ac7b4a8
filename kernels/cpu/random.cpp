#include "kernels/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/indices.h"
#include "kernels/shared/normal_quantile.h"
#include "kernels/shared/philox.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kBlocks = 64;  // drawn at a time

// element(words) returns the elements of one block, `per_block` of them.
template <class T, int per_block, class Elements>
void draw(const View& state, const View& y, Elements elements) {
  uint32_t words[4 * kBlocks];
  T block[per_block];
  int64_t models = state.size() / 2, n = models ? y.size() / models : 0;
  for (int64_t m = 0; m < models; ++m) {
    T* out = y.as<T>() + m * n;
    for (int64_t first = 0; first * per_block < n; first += kBlocks) {
      int64_t blocks = std::min(kBlocks, (n + per_block - 1) / per_block - first);
      random_words(state.as<const int64_t>() + 2 * m, first, blocks, words);
      for (int64_t b = 0; b < blocks; ++b) {
        elements(words + 4 * b, block);
        int64_t at = (first + b) * per_block;
        for (int64_t i = 0; i < std::min<int64_t>(per_block, n - at); ++i) out[at + i] = block[i];
      }
    }
  }
}

template <class T>
T rounded_down(compute_t<T> v) {
  T t(v);
  if constexpr (sizeof(T) == 2)
    if (float(t) > v) t.bits = uint16_t(v > 0 ? t.bits - 1 : float(t) < 0 ? t.bits + 1 : 0x8001);
  return t;
}

template <class U>
void normal_pair(U u1, U u2, U& a, U& b) {  // u1 in (0, 1]
  U radius = std::sqrt(U(-2) * std::log(u1)), angle = 2 * std::numbers::pi_v<U> * u2;
  a = radius * std::cos(angle);
  b = radius * std::sin(angle);
}

}  // namespace

template <class T>
void random_uniform(Stream&, const View& state, const View& y, double low, double high) {
  // Rounding may leave the interval; low is certainly inside.
  auto inside = [=](auto v) { return double(v) < high && double(v) >= low ? rounded_down<T>(v) : T(low); };
  if constexpr (std::is_same_v<T, double>) {
    draw<T, 2>(state, y, [=](const uint32_t* w, T* out) {
      for (int i = 0; i < 2; ++i) out[i] = inside(low + philox::unit53(w[2 * i], w[2 * i + 1]) * (high - low));
    });
  } else {
    float from = float(low), range = float(high - low);
    draw<T, 4>(state, y, [=](const uint32_t* w, T* out) {
      for (int i = 0; i < 4; ++i) out[i] = inside(from + philox::unit24(w[i]) * range);
    });
  }
}

template <class T>
void random_normal(Stream&, const View& state, const View& y, double mean, double deviation) {
  if constexpr (std::is_same_v<T, double>) {
    draw<T, 2>(state, y, [=](const uint32_t* w, T* out) {
      normal_pair(1 - philox::unit53(w[0], w[1]), philox::unit53(w[2], w[3]), out[0], out[1]);
      for (int i = 0; i < 2; ++i) out[i] = mean + deviation * out[i];
    });
  } else {
    draw<T, 4>(state, y, [=](const uint32_t* w, T* out) {
      float z[4];
      for (int i = 0; i < 4; i += 2) normal_pair((float(w[i]) + 1.0f) * 0x1p-32f, philox::unit24(w[i + 1]), z[i], z[i + 1]);
      for (int i = 0; i < 4; ++i) out[i] = T(float(mean) + float(deviation) * z[i]);
    });
  }
}

template <class T>
void random_integers(Stream&, const View& state, const View& y, int64_t low, int64_t high) {
  const uint64_t range = uint64_t(high) - uint64_t(low);
  draw<T, 2>(state, y, [=](const uint32_t* w, T* out) {
    for (int i = 0; i < 2; ++i) {
      const uint64_t bits = uint64_t(w[2 * i + 1]) << 32 | w[2 * i];
      out[i] = T(uint64_t(low) + uint64_t(static_cast<unsigned __int128>(bits) * range >> 64));
    }
  });
}

template <class T>
void random_truncated_normal(Stream&, const View& state, const View& y, double mean, double deviation, double low, double high) {
  const double a = (low - mean) / deviation, b = (high - mean) / deviation;
  // The side of the distribution's smaller tail, where probabilities are accurate.
  const bool turned = a > 0;
  auto below = [](double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); };
  const double first = below(turned ? -b : a), last = below(turned ? -a : b);
  auto number = [=](double u) {  // u in (0, 1)
    const double p = std::clamp(first + u * (last - first), 0x1p-1074, 1 - 0x1p-53), z = lamina::kernels::scalar::normal_quantile(p);
    return T(compute_t<T>(std::clamp(mean + deviation * (turned ? -z : z), low, high)));
  };
  if constexpr (std::is_same_v<T, double>) {
    draw<T, 2>(state, y, [=](const uint32_t* w, T* out) {
      for (int i = 0; i < 2; ++i) out[i] = number(philox::unit53(w[2 * i], w[2 * i + 1]) + 0x1p-54);
    });
  } else {
    draw<T, 4>(state, y, [=](const uint32_t* w, T* out) {
      for (int i = 0; i < 4; ++i) out[i] = number((double(w[i]) + 0.5) * 0x1p-32);
    });
  }
}

// clang-format off
#define LAMINA_INTEGERS(T) template void random_integers<T>(Stream&, const View&, const View&, int64_t, int64_t);
LAMINA_INTEGERS(uint8_t)
LAMINA_INTEGERS(int8_t) LAMINA_INTEGERS(int16_t) LAMINA_INTEGERS(int32_t) LAMINA_INTEGERS(int64_t)
#undef LAMINA_INTEGERS
#define LAMINA_TRUNCATED(T) template void random_truncated_normal<T>(Stream&, const View&, const View&, double, double, double, double);
    LAMINA_TRUNCATED(f16) LAMINA_TRUNCATED(bf16) LAMINA_TRUNCATED(float) LAMINA_TRUNCATED(double)
#undef LAMINA_TRUNCATED
    // clang-format on
    template void random_uniform<f16>(Stream&, const View&, const View&, double, double);
template void random_uniform<bf16>(Stream&, const View&, const View&, double, double);
template void random_uniform<float>(Stream&, const View&, const View&, double, double);
template void random_uniform<double>(Stream&, const View&, const View&, double, double);
template void random_normal<f16>(Stream&, const View&, const View&, double, double);
template void random_normal<bf16>(Stream&, const View&, const View&, double, double);
template void random_normal<float>(Stream&, const View&, const View&, double, double);
template void random_normal<double>(Stream&, const View&, const View&, double, double);

}  // namespace lamina::kernels::cpu
