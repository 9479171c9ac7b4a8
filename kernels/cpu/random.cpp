#include "kernels/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/indices.h"
#include "kernels/shared/philox.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kBlocks = 64;  // drawn at a time

// element(words) gives the elements of one block; there are `per_block` of them.
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

// Mantissa bits and the implied one: a number of so many bits below 1 is exact.
template <class T>
constexpr int kBits = 24;
template <>
constexpr int kBits<f16> = 11;
template <>
constexpr int kBits<bf16> = 8;

template <class U>
void normal_pair(U u1, U u2, U& a, U& b) {  // u1 in (0, 1]
  U radius = std::sqrt(U(-2) * std::log(u1)), angle = 2 * std::numbers::pi_v<U> * u2;
  a = radius * std::cos(angle);
  b = radius * std::sin(angle);
}

// The number below which a normal number lies with probability p in (0, 1): Wichura, "Algorithm AS 241", 1988; relative error 1e-16.
double normal_quantile(double p) {
  auto ratio = [](const double(&a)[8], const double(&b)[8], double r) {
    double above = a[7], below = b[7];
    for (int i = 6; i >= 0; --i) above = above * r + a[i], below = below * r + b[i];
    return above / below;
  };
  static constexpr double kA[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
                                  4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double kB[] = {1.0,
                                  4.2313330701600911252e1,
                                  6.8718700749205790830e2,
                                  5.3941960214247511077e3,
                                  2.1213794301586595867e4,
                                  3.9307895800092710610e4,
                                  2.8729085735721942674e4,
                                  5.2264952788528545610e3};
  static constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                  3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                  2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) return q * ratio(kA, kB, 0.180625 - q * q);
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? ratio(kC, kD, r - 1.6) : ratio(kE, kF, r - 5);
  return q < 0 ? -z : z;
}

}  // namespace

template <class T>
void random_uniform(Stream&, const View& state, const View& y, double low, double high) {
  // Rounding may reach high; low is in the interval for certain.
  auto inside = [=](T v) { return double(v) < high ? v : T(compute_t<T>(low)); };
  if constexpr (std::is_same_v<T, double>) {
    draw<T, 2>(state, y, [=](const uint32_t* w, T* out) {
      for (int i = 0; i < 2; ++i) out[i] = inside(low + philox::unit53(w[2 * i], w[2 * i + 1]) * (high - low));
    });
  } else {
    float from = float(low), range = float(high - low);
    draw<T, 4>(state, y, [=](const uint32_t* w, T* out) {
      for (int i = 0; i < 4; ++i) out[i] = inside(T(from + float(w[i] >> (32 - kBits<T>)) * (1.0f / (1 << kBits<T>)) * range));
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
  // The side of the distribution's smaller tail: there probabilities are exact.
  const bool turned = a > 0;
  auto below = [](double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); };
  const double first = below(turned ? -b : a), last = below(turned ? -a : b);
  auto number = [=](double u) {  // u in (0, 1)
    const double p = std::clamp(first + u * (last - first), 0x1p-1074, 1 - 0x1p-53), z = normal_quantile(p);
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

#define LAMINA_INTEGERS(T) template void random_integers<T>(Stream&, const View&, const View&, int64_t, int64_t);
LAMINA_INTEGERS(uint8_t)
LAMINA_INTEGERS(int8_t) LAMINA_INTEGERS(int16_t) LAMINA_INTEGERS(int32_t) LAMINA_INTEGERS(int64_t)
#undef LAMINA_INTEGERS
#define LAMINA_TRUNCATED(T) template void random_truncated_normal<T>(Stream&, const View&, const View&, double, double, double, double);
    LAMINA_TRUNCATED(f16) LAMINA_TRUNCATED(bf16) LAMINA_TRUNCATED(float) LAMINA_TRUNCATED(double)
#undef LAMINA_TRUNCATED
        template void random_uniform<f16>(Stream&, const View&, const View&, double, double);
template void random_uniform<bf16>(Stream&, const View&, const View&, double, double);
template void random_uniform<float>(Stream&, const View&, const View&, double, double);
template void random_uniform<double>(Stream&, const View&, const View&, double, double);
template void random_normal<f16>(Stream&, const View&, const View&, double, double);
template void random_normal<bf16>(Stream&, const View&, const View&, double, double);
template void random_normal<float>(Stream&, const View&, const View&, double, double);
template void random_normal<double>(Stream&, const View&, const View&, double, double);

}  // namespace lamina::kernels::cpu
