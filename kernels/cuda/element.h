// Elements in GPU kernels: the type that each is computed in, conversion of half types, strided positions, and launch sizes for n elements.
#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device.h"
#include "runtime/core/view.h"

#if defined(__CUDACC__)
#define LAMINA_DEVICE_CALL __device__ __noinline__  // a function too large to inline
#else
#define LAMINA_DEVICE_CALL [[gnu::noinline]] inline
#endif

namespace lamina::kernels::cuda {

LAMINA_DEVICE float widen(f16 v) {
#if defined(__CUDA_ARCH__)
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
#else
  return f16_value(v.bits);
#endif
}
LAMINA_DEVICE float widen(bf16 v) {
#if defined(__CUDA_ARCH__)
  return __int_as_float(int(unsigned(v.bits) << 16));
#else
  return bf16_value(v.bits);
#endif
}
template <class T>
LAMINA_DEVICE T widen(T v) {
  return v;
}

// Converts from the type that T is computed in to T, with one rounding.
template <class T>
LAMINA_DEVICE T narrow(compute_t<T> v) {
  if constexpr (std::is_same_v<T, f16>) {
    f16 h;
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(v));
#else
    h.bits = f16_bits(v);
#endif
    return h;
  } else if constexpr (std::is_same_v<T, bf16>) {
    bf16 h;
#if defined(__CUDA_ARCH__)
    const unsigned x = unsigned(__float_as_int(v));
    h.bits = (x & 0x7fffffffu) > 0x7f800000u ? uint16_t((x >> 16) | 0x40u) : uint16_t((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
#else
    h.bits = bf16_bits(v);
#endif
    return h;
  } else {
    return v;
  }
}

// Element i of integers of any type.
LAMINA_DEVICE int64_t integer_at(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::i64: return static_cast<const int64_t*>(data)[i];
    case DType::i32: return static_cast<const int32_t*>(data)[i];
    case DType::i16: return static_cast<const int16_t*>(data)[i];
    case DType::i8: return static_cast<const int8_t*>(data)[i];
    default: return static_cast<const uint8_t*>(data)[i];
  }
}

// Element i of any type as T: float for f32 and narrower types, double, or int64_t.
template <class T>
LAMINA_DEVICE T load_as(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::f16: return T(widen(static_cast<const f16*>(data)[i]));
    case DType::bf16: return T(widen(static_cast<const bf16*>(data)[i]));
    case DType::f32: return T(static_cast<const float*>(data)[i]);
    case DType::f64: return T(static_cast<const double*>(data)[i]);
    default: return T(integer_at(data, dtype, i));
  }
}
template <class T>
LAMINA_DEVICE void store_as(void* data, DType dtype, int64_t i, T v) {
  switch (dtype) {
    case DType::f16: static_cast<f16*>(data)[i] = narrow<f16>(float(v)); return;
    case DType::bf16: static_cast<bf16*>(data)[i] = narrow<bf16>(float(v)); return;
    case DType::f32: static_cast<float*>(data)[i] = float(v); return;
    case DType::f64: static_cast<double*>(data)[i] = double(v); return;
    case DType::i64: static_cast<int64_t*>(data)[i] = int64_t(v); return;
    case DType::i32: static_cast<int32_t*>(data)[i] = int32_t(v); return;
    case DType::i16: static_cast<int16_t*>(data)[i] = int16_t(v); return;
    case DType::i8: static_cast<int8_t*>(data)[i] = int8_t(v); return;
    case DType::u8: static_cast<uint8_t*>(data)[i] = uint8_t(v); return;
    case DType::boolean: static_cast<uint8_t*>(data)[i] = v != T(0); return;
    default: return;  // the others are moved, not computed
  }
}

LAMINA_DEVICE int count_bits(unsigned v) {
#if defined(__CUDA_ARCH__)
  return __popc(v);
#else
  return __builtin_popcount(v);
#endif
}

// Grid-stride loop over n elements: for (int64_t i = first_element(); i < n; i += all_threads()).
LAMINA_DEVICE int64_t first_element() { return int64_t(block_index()) * block_size() + thread_index(); }
LAMINA_DEVICE int64_t all_threads() { return int64_t(block_count()) * block_size(); }

inline constexpr int64_t kMostBlocks = 4096;  // fills any GPU several times; the loop covers the rest
inline constexpr unsigned kThreads = 256;

inline LaunchShape over(int64_t n) {
  const int64_t blocks = (n + kThreads - 1) / kThreads;
  return {.grid = {unsigned(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks)}, .threads = kThreads};
}
// One block for each of n.
inline LaunchShape over_blocks(int64_t n) { return over(n < kMostBlocks ? n * kThreads : kMostBlocks * kThreads); }
// One warp for each of n.
inline LaunchShape over_warps(int64_t n) { return over(n < kMostBlocks * kThreads ? n * kWarp : kMostBlocks * kThreads); }
LAMINA_DEVICE int64_t first_warp() { return first_element() / kWarp; }
LAMINA_DEVICE int64_t all_warps() { return all_threads() / kWarp; }

// A length, prepared on the host so that a thread divides by it with one multiplication, if the dividend is below 2^31. The quotient's
// error must stay below 1 / length: with 2^(31 + bits) / length rounded up, it is below dividend / 2^(31 + bits).
class Divider {
 public:
  Divider() = default;
  explicit Divider(int64_t length) : length_(length) {
    if (length < 2 || length > 0x7fffffff) return;
    unsigned bits = 1;
    while ((int64_t{1} << bits) < length) ++bits;
    multiplier_ = unsigned((((uint64_t{1} << (31 + bits)) + uint64_t(length) - 1) / uint64_t(length))), shift_ = bits - 1;
  }
  LAMINA_DEVICE int64_t length() const { return length_; }
  LAMINA_DEVICE int64_t quotient(int64_t i) const {
    if (multiplier_ != 0 && uint64_t(i) <= 0x7fffffffu) return int64_t(unsigned(uint64_t(unsigned(i)) * multiplier_ >> 32) >> shift_);
    return length_ == 1 ? i : i / length_;
  }
  // i becomes the quotient; returns the remainder.
  LAMINA_DEVICE int64_t split(int64_t& i) const {
    const int64_t whole = i, next = quotient(i);
    i = next;
    return whole - next * length_;
  }

 private:
  int64_t length_ = 1;
  unsigned multiplier_ = 0, shift_ = 0;
};

struct Place {
  int64_t image, row, column;
};
// Positions in images of height x width.
struct Images {
  Divider height, width;
  LAMINA_DEVICE Place place(int64_t p) const {
    const int64_t column = width.split(p), row = height.split(p);
    return {p, row, column};
  }
};

// Axes in row-major order with one operand's strides. Axes of length 1 are dropped, and neighbours that form one stride are merged.
struct Axes {
  int rank = 0;
  int64_t shape[kMaxRank] = {}, strides[kMaxRank] = {};
  int64_t size = 1;

  void add(int64_t length, int64_t stride) {
    size *= length;
    if (length == 1) return;
    if (rank && strides[rank - 1] == stride * length) {
      shape[rank - 1] *= length, strides[rank - 1] = stride;
      return;
    }
    shape[rank] = length, strides[rank] = stride;
    ++rank;
  }
  // The offset of element i.
  LAMINA_DEVICE int64_t offset(int64_t i) const {
    int64_t at = 0;
    if (size <= 0x7fffffff) {  // 32-bit divisions are several times faster
      unsigned rest = unsigned(i);
      for (int a = rank - 1; a > 0; --a) {
        const unsigned length = unsigned(shape[a]), next = rest / length;
        at += int64_t(rest - next * length) * strides[a];
        rest = next;
      }
      return rank ? at + int64_t(rest) * strides[0] : at;
    }
    for (int a = rank - 1; a > 0; --a) {
      const int64_t next = i / shape[a];
      at += (i - next * shape[a]) * strides[a];
      i = next;
    }
    return rank ? at + i * strides[0] : at;
  }
};

inline Axes axes_of(const View& v) {
  Axes axes;
  for (int a = 0; a < v.rank; ++a) axes.add(v.shape[a], v.strides[a]);
  return axes;
}
inline Axes axes_without(const View& v, int axis) {
  Axes axes;
  for (int a = 0; a < v.rank; ++a)
    if (a != axis) axes.add(v.shape[a], v.strides[a]);
  return axes;
}

// [outer, length, inner]: a contiguous tensor around one axis.
struct Line {
  int64_t outer = 1, length = 1, inner = 1;
};
inline Line line_of(const View& v, int axis) {
  Line line;
  line.length = v.shape[axis];
  for (int a = 0; a < axis; ++a) line.outer *= v.shape[a];
  for (int a = axis + 1; a < v.rank; ++a) line.inner *= v.shape[a];
  return line;
}

}  // namespace lamina::kernels::cuda
