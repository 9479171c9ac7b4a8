#include "kernels/scatter.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/indices.h"
#include "kernels/cpu/strided.h"
#include "kernels/cpu/sums.h"
#include "runtime/core/error.h"

namespace lamina::kernels::cpu {
namespace {

[[noreturn]] void out_of_range(const char* op, int64_t index, int64_t length, const std::string& where) {
  throw Error(ErrorKind::index, {.what = cat(op, ": index ", index, " is out of range for an axis of length ", length),
                                 .where = where,
                                 .why = length ? cat("indices are from ", -length, " to ", length - 1) : "the axis has no elements",
                                 .fix = "correct the indices"});
}

void check_indices(const View& indices, const GatherSizes& s) {
  if (const int64_t i = first_out_of_range(indices, s.length); i >= 0)
    out_of_range("scatter", index_at(indices, i), s.length, cat("indices[", i, "]"));
}

// Calls row(position in updates, position in y) for each index in order.
template <class Row>
void each_update(const View& indices, const GatherSizes& s, Row row) {
  with_indices(indices, [&](const auto* from) {
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t j = 0; j < s.count; ++j) {
        int64_t index = int64_t(from[b * s.count + j]);
        if (index < 0) index += s.length;
        row((b * s.count + j) * s.inner, (b * s.length + index) * s.inner);
      }
  });
}

template <class T>
T combine(T a, T b, ScatterMode mode) {  // half types as floats
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (mode) {
      case ScatterMode::add: return T(U(a) + U(b));
      case ScatterMode::mul: return T(uint64_t(U(a)) * uint64_t(U(b)));
      case ScatterMode::min: return std::min(a, b);
      case ScatterMode::max: return std::max(a, b);
      case ScatterMode::set: break;
    }
    return b;
  } else {
    switch (mode) {
      case ScatterMode::add: return a + b;
      case ScatterMode::mul: return a * b;
      case ScatterMode::min: return b < a || b != b ? b : a;
      case ScatterMode::max: return b > a || b != b ? b : a;
      case ScatterMode::set: break;
    }
    return b;
  }
}

}  // namespace

void ravel_index(Stream&, std::span<const View* const> in, std::span<const View* const> out, std::vector<int64_t> lengths) {
  const View& y = *out[0];
  int64_t* to = y.as<int64_t>();
  const int64_t n = y.size();
  for (size_t k = 0; k < in.size(); ++k) {
    const View& x = *in[k];
    int64_t strides[kMaxRank] = {};
    for (int a = 0; a < x.rank; ++a)
      if (x.shape[a] != 1) strides[a + y.rank - x.rank] = x.strides[a];
    int64_t i = 0;
    each_row(Cursor(y.rank, y.shape, 0), strides, n, [&](int64_t offset, int64_t m) {
      const int64_t step = y.rank ? strides[y.rank - 1] : 0;
      for (int64_t j = 0; j < m; ++j, ++i) {
        int64_t index = index_at(x, offset + j * step);
        if (index < -lengths[k] || index >= lengths[k]) out_of_range("index", index, lengths[k], cat("indices of axis ", k));
        if (index < 0) index += lengths[k];
        to[i] = k ? to[i] * lengths[k] + index : index;
      }
    });
  }
}

template <class T>
void scatter_set(Stream&, const View& updates, const View& indices, const View& x, const View& y, GatherSizes s) {
  const T* from = updates.as<const T>();
  T* to = y.as<T>();
  check_indices(indices, s);
  if (y.data != x.data && x.size() > 0) std::memcpy(y.data, x.data, size_t(x.size()) * sizeof(T));
  each_update(indices, s, [&](int64_t picked, int64_t whole) { std::copy_n(from + picked, s.inner, to + whole); });
}

template <class T>
void scatter_combine(Stream&, const View& updates, const View& indices, const View& x, const View& y, GatherSizes s, ScatterMode mode) {
  const T* from = updates.as<const T>();
  check_indices(indices, s);
  Sums<T> sums(y.as<T>(), y.size());
  compute_t<T>* to = sums.data();
  if (static_cast<void*>(to) != x.data) std::copy_n(x.as<const T>(), x.size(), to);
  each_update(indices, s, [&](int64_t picked, int64_t whole) {
    for (int64_t i = 0; i < s.inner; ++i) to[whole + i] = combine(to[whole + i], compute_t<T>(from[picked + i]), mode);
  });
}

void nonzero(Stream&, const View& x, const View& places, const View& count) {
  const int64_t n = x.shape[x.rank - 1], rows = count.size();
  const uint8_t* from = x.as<const uint8_t>();
  int64_t* to = places.as<int64_t>();
  for (int64_t r = 0; r < rows; ++r, from += n, to += n) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) {
      to[found] = i;  // found <= i: within the row
      found += from[i] != 0;
    }
    std::fill(to + found, to + n, n);
    count.as<int64_t>()[r] = found;
  }
}

template void scatter_set<uint8_t>(Stream&, const View&, const View&, const View&, const View&, GatherSizes);
template void scatter_set<uint16_t>(Stream&, const View&, const View&, const View&, const View&, GatherSizes);
template void scatter_set<uint32_t>(Stream&, const View&, const View&, const View&, const View&, GatherSizes);
template void scatter_set<uint64_t>(Stream&, const View&, const View&, const View&, const View&, GatherSizes);
#define LAMINA_COMBINE(T) \
  template void scatter_combine<T>(Stream&, const View&, const View&, const View&, const View&, GatherSizes, ScatterMode);
LAMINA_COMBINE(uint8_t)
LAMINA_COMBINE(int8_t)
LAMINA_COMBINE(int16_t)
LAMINA_COMBINE(int32_t) LAMINA_COMBINE(int64_t) LAMINA_COMBINE(f16) LAMINA_COMBINE(bf16) LAMINA_COMBINE(float) LAMINA_COMBINE(double)
#undef LAMINA_COMBINE

}  // namespace lamina::kernels::cpu
