// A thread takes the elements of one Philox block: four, or two of 64 bits. Compute-bound.
#include "kernels/random.h"

#include <cmath>

#include "kernels/cuda/element.h"
#include "kernels/gpu_kernel.h"
#include "kernels/shared/normal_quantile.h"
#include "kernels/shared/philox.h"

namespace lamina::kernels::cuda {
namespace {

template <class T, bool wide>
inline constexpr int kPerBlock = wide || sizeof(T) == 8 ? 2 : 4;

template <class T>
LAMINA_DEVICE T rounded_down(compute_t<T> v) {
  T t = narrow<T>(v);
  if constexpr (sizeof(T) == 2)
    if (widen(t) > v) t.bits = uint16_t(v > 0 ? t.bits - 1 : widen(t) < 0 ? t.bits + 1 : 0x8001);
  return t;
}

struct Uniform {
  double low, high;
  float from, range;  // of types that compute in float
  template <class T>
  LAMINA_DEVICE void operator()(const unsigned (&w)[4], T* out) const {
    if constexpr (std::is_same_v<T, double>) {
      for (int i = 0; i < 2; ++i) {
        const double v = low + philox::unit53(w[2 * i], w[2 * i + 1]) * (high - low);
        out[i] = v < high ? v : low;
      }
    } else {
      for (int i = 0; i < 4; ++i) {
        const float v = from + philox::unit24(w[i]) * range;  // rounding may leave the interval
        out[i] = double(v) < high && double(v) >= low ? rounded_down<T>(v) : narrow<T>(float(low));
      }
    }
  }
};

// Box and Muller; u1 in (0, 1].
template <class U>
LAMINA_DEVICE void normal_pair(U u1, U u2, U& a, U& b) {
  const U radius = scalar::sqrt(U(-2) * scalar::log(u1)), angle = U(2) * U(3.141592653589793238) * u2;
  a = radius * scalar::cos(angle);
  b = radius * scalar::sin(angle);
}
struct Normal {
  double mean, deviation;
  template <class T>
  LAMINA_DEVICE void operator()(const unsigned (&w)[4], T* out) const {
    if constexpr (std::is_same_v<T, double>) {
      normal_pair(1 - philox::unit53(w[0], w[1]), philox::unit53(w[2], w[3]), out[0], out[1]);
      for (int i = 0; i < 2; ++i) out[i] = mean + deviation * out[i];
    } else {
      float z[4];
      for (int i = 0; i < 4; i += 2) normal_pair((float(w[i]) + 1.0f) * 0x1p-32f, philox::unit24(w[i + 1]), z[i], z[i + 1]);
      for (int i = 0; i < 4; ++i) out[i] = narrow<T>(float(mean) + float(deviation) * z[i]);
    }
  }
};

// The upper 64 bits of a product.
LAMINA_DEVICE uint64_t upper(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  return uint64_t(static_cast<unsigned __int128>(a) * b >> 64);
#endif
}
struct Integers {
  int64_t low;
  uint64_t range;
  template <class T>
  LAMINA_DEVICE void operator()(const unsigned (&w)[4], T* out) const {
    for (int i = 0; i < 2; ++i) out[i] = T(uint64_t(low) + upper(uint64_t(w[2 * i + 1]) << 32 | w[2 * i], range));
  }
};

struct TruncatedNormal {
  double mean, deviation, low, high;
  double first, last;                            // the probabilities of the limits
  bool turned;                                   // draws from the other tail
  LAMINA_DEVICE double number(double u) const {  // u in (0, 1)
    double p = first + u * (last - first);
    p = p < 0x1p-1074 ? 0x1p-1074 : p > 1 - 0x1p-53 ? 1 - 0x1p-53 : p;
    const double z = scalar::normal_quantile(p), x = mean + deviation * (turned ? -z : z);
    return x < low ? low : x > high ? high : x;
  }
  template <class T>
  LAMINA_DEVICE void operator()(const unsigned (&w)[4], T* out) const {
    if constexpr (std::is_same_v<T, double>)
      for (int i = 0; i < 2; ++i) out[i] = number(philox::unit53(w[2 * i], w[2 * i + 1]) + 0x1p-54);
    else
      for (int i = 0; i < 4; ++i) out[i] = narrow<T>(compute_t<T>(number((double(w[i]) + 0.5) * 0x1p-32)));
  }
};

template <class T, bool wide, class Elements>
LAMINA_KERNEL(256)
draw_blocks(const int64_t* state, T* y, int64_t models, int64_t n, Elements elements) {
  constexpr int per_block = kPerBlock<T, wide>;
  const int64_t blocks = (n + per_block - 1) / per_block;
  for (int64_t unit = first_element(); unit < models * blocks; unit += all_threads()) {
    const int64_t model = unit / blocks, block = unit % blocks;
    const philox::Block words = philox::draw(state[2 * model], state[2 * model + 1], block);
    T out[per_block];
    elements(words.word, out);
    for (int k = 0; k < per_block && per_block * block + k < n; ++k) y[model * n + per_block * block + k] = out[k];
  }
}

template <class T, bool wide = false, class Elements>
void draw(Stream& stream, const View& state, const View& y, Elements elements) {
  const int64_t models = state.size() / 2, n = models ? y.size() / models : 0;
  if (n == 0) return;
  constexpr int per_block = kPerBlock<T, wide>;
  launch<draw_blocks<T, wide, Elements>>(stream, over(models * ((n + per_block - 1) / per_block)), state.as<const int64_t>(), y.as<T>(),
                                         models, n, elements);
}

}  // namespace

template <class T>
void random_uniform(Stream& stream, const View& state, const View& y, double low, double high) {
  draw<T>(stream, state, y, Uniform{low, high, float(low), float(high - low)});
}
template <class T>
void random_normal(Stream& stream, const View& state, const View& y, double mean, double deviation) {
  draw<T>(stream, state, y, Normal{mean, deviation});
}
template <class T>
void random_integers(Stream& stream, const View& state, const View& y, int64_t low, int64_t high) {
  draw<T, true>(stream, state, y, Integers{low, uint64_t(high) - uint64_t(low)});
}
template <class T>
void random_truncated_normal(Stream& stream, const View& state, const View& y, double mean, double deviation, double low, double high) {
  const double a = (low - mean) / deviation, b = (high - mean) / deviation;
  const bool turned = a > 0;  // the smaller tail, where probabilities are accurate
  const auto below = [](double z) { return 0.5 * std::erfc(-z / 1.41421356237309504880); };
  draw<T>(stream, state, y, TruncatedNormal{mean, deviation, low, high, below(turned ? -b : a), below(turned ? -a : b), turned});
}

namespace {
const GpuKernels<LAMINA_INTEGERS(random_integers), LAMINA_FLOATING(random_uniform), LAMINA_FLOATING(random_normal),
                 LAMINA_FLOATING(random_truncated_normal)>
    registered;
}

}  // namespace lamina::kernels::cuda
