// Elements become unsigned keys with the same order, prefixed by their row. Thrust sorts them together with their indices, and everything
// else reads the sorted indices. Memory-bound.
#include "kernels/sort.h"

#include <bit>

#include "kernels/cuda/element.h"
#include "kernels/cuda/order.h"
#include "kernels/cuda/scratch.h"
#include "kernels/gpu_kernel.h"

namespace lamina::kernels::cuda {
namespace {

// --- keys ---

// Smaller numbers have smaller keys; every NaN has the largest. equal: 0 and -0 get the same key.
template <class T>
LAMINA_DEVICE uint64_t key_of(T v, bool equal) {
  using K = std::conditional_t<sizeof(T) == 8, uint64_t,
                               std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
  constexpr K sign = K(K(1) << (8 * sizeof(K) - 1));
  K bits;
  memcpy(&bits, &v, sizeof bits);
  if constexpr (std::is_integral_v<T>) return std::is_signed_v<T> ? K(bits ^ sign) : bits;
  if (widen(v) != widen(v)) return K(~K(0));
  if (equal && bits == sign) bits = 0;
  return bits & sign ? K(~bits) : K(bits | sign);
}
// Element i of any type, chosen at run time: separate kernels per type would not be faster.
LAMINA_DEVICE uint64_t key_at(const void* x, DType type, int64_t i, bool equal) {
  switch (type) {
    case DType::f16: return key_of(static_cast<const f16*>(x)[i], equal);
    case DType::bf16: return key_of(static_cast<const bf16*>(x)[i], equal);
    case DType::f32: return key_of(static_cast<const float*>(x)[i], equal);
    case DType::f64: return key_of(static_cast<const double*>(x)[i], equal);
    case DType::i64: return key_of(static_cast<const int64_t*>(x)[i], equal);
    case DType::i32: return key_of(static_cast<const int32_t*>(x)[i], equal);
    case DType::i16: return key_of(static_cast<const int16_t*>(x)[i], equal);
    case DType::i8: return key_of(static_cast<const int8_t*>(x)[i], equal);
    default: return static_cast<const uint8_t*>(x)[i];
  }
}
LAMINA_DEVICE void copy_element(void* to, int64_t i, const void* from, int64_t j, size_t bytes) {
  switch (bytes) {
    case 8: static_cast<uint64_t*>(to)[i] = static_cast<const uint64_t*>(from)[j]; return;
    case 4: static_cast<uint32_t*>(to)[i] = static_cast<const uint32_t*>(from)[j]; return;
    case 2: static_cast<uint16_t*>(to)[i] = static_cast<const uint16_t*>(from)[j]; return;
    default: static_cast<uint8_t*>(to)[i] = static_cast<const uint8_t*>(from)[j]; return;
  }
}

// --- rows ---

// The rows of x along an axis, and of a result with the same layout. Element i of all is element i % length of row i / length.
struct Rows {
  const void* data;
  DType type;
  Axes x, y;
  int64_t length, x_step, y_step;
  int64_t count() const { return x.size * length; }
  LAMINA_DEVICE int64_t of_x(int64_t i) const { return x.offset(i / length) + i % length * x_step; }
  LAMINA_DEVICE int64_t of_y(int64_t i) const { return y.offset(i / length) + i % length * y_step; }
};
Rows rows_of(const View& x, const View& y, int axis) {
  return {x.data, x.dtype, axes_without(x, axis), axes_without(y, axis), x.shape[axis], x.strides[axis], y.strides[axis]};
}

// descending: 0, or all bits of an element's key. with_row: the row is the key's prefix.
template <class K>
LAMINA_KERNEL(256)
make_keys(Rows rows, K* keys, int64_t* places, int64_t count, uint64_t descending, bool with_row, int key_bits, bool equal) {
  for (int64_t i = first_element(); i < count; i += all_threads()) {
    const uint64_t key = key_at(rows.data, rows.type, rows.of_x(i), equal) ^ descending;
    keys[i] = K(with_row && key_bits < 64 ? uint64_t(i / rows.length) << key_bits | key : key);
    places[i] = i;
  }
}
LAMINA_KERNEL(256) make_row_keys(const int64_t* places, uint64_t* keys, int64_t length, int64_t count) {
  for (int64_t i = first_element(); i < count; i += all_threads()) keys[i] = uint64_t(places[i] / length);
}

LAMINA_KERNEL(256) take_values(const int64_t* places, Rows rows, void* y, int64_t count, size_t bytes) {
  for (int64_t i = first_element(); i < count; i += all_threads()) copy_element(y, rows.of_y(i), rows.data, rows.of_x(places[i]), bytes);
}
LAMINA_KERNEL(256) take_places(const int64_t* places, Rows rows, int64_t* y, int64_t count) {
  for (int64_t i = first_element(); i < count; i += all_threads()) y[rows.of_y(i)] = places[i] % rows.length;
}
LAMINA_KERNEL(256) take_first(const int64_t* places, Rows rows, void* values, int64_t* y, int64_t k, int64_t count, size_t bytes) {
  for (int64_t i = first_element(); i < count; i += all_threads()) {
    const int64_t place = places[i / k * rows.length + i % k];
    copy_element(values, i, rows.data, rows.of_x(place), bytes);
    y[i] = place % rows.length;
  }
}

// --- groups of equal elements ---

LAMINA_KERNEL(256) mark_groups(const int64_t* places, Rows rows, uint64_t* begins, int64_t count) {
  const auto key = [&](int64_t i) { return key_at(rows.data, rows.type, rows.of_x(places[i]), true); };
  for (int64_t i = first_element(); i < count; i += all_threads()) begins[i] = i % rows.length == 0 || key(i) != key(i - 1);
}
// begun[i]: number of groups that have begun up to element i of all. A group's first element stores its position in counts, for
// count_groups.
LAMINA_KERNEL(256)
number_groups(const int64_t* places, const uint64_t* begun, int64_t* firsts, int64_t* which, int64_t* counts, int64_t* count, int64_t n,
              int64_t all) {
  for (int64_t i = first_element(); i < all; i += all_threads()) {
    const int64_t at = i % n, row = i - at;
    const uint64_t before = row ? begun[row - 1] : 0;
    const int64_t group = int64_t(begun[i] - before) - 1, groups = int64_t(begun[row + n - 1] - before);
    which[row + places[i] % n] = group;
    if (i == 0 || begun[i] != begun[i - 1]) firsts[row + group] = places[i] % n, counts[row + group] = at;
    if (at >= groups) firsts[i] = places[row] % n, counts[i] = 0;
    if (at == 0) count[i / n] = groups;
  }
}
LAMINA_KERNEL(256) count_groups(const uint64_t* begun, int64_t* counts, int64_t n, int64_t all) {
  for (int64_t i = first_element(); i < all; i += all_threads()) {
    const int64_t at = i % n, row = i - at;
    const int64_t slot = row + int64_t(begun[i] - (row ? begun[row - 1] : 0)) - 1;
    if (at == n - 1 || begun[i + 1] != begun[i]) counts[slot] = at + 1 - counts[slot];
  }
}

LAMINA_KERNEL(256)
search(const void* sorted, const void* values, DType type, int64_t* places, int64_t n, int64_t total, int64_t per_row, bool right) {
  for (int64_t v = first_element(); v < total; v += all_threads()) {
    const int64_t row = v / per_row * n;
    const uint64_t key = key_at(values, type, v, true);
    int64_t low = 0, left = n;
    while (left > 0) {
      const int64_t half = left / 2;
      const uint64_t middle = key_at(sorted, type, row + low + half, true);
      if (middle < key || (right && middle == key))
        low += half + 1, left -= half + 1;
      else
        left = half;
    }
    places[v] = low;
  }
}

// places: each row's elements in order, as indices into all elements. K holds row and key, or only the key: then a second sort groups the
// rows.
template <class K>
void order_rows(Stream& stream, const Rows& rows, int key_bits, bool with_row, bool descending, bool equal, int64_t* places) {
  const int64_t count = rows.count();
  const Scratch<K> keys(stream, count);
  launch<make_keys<K>>(stream, over(count), rows, keys.data(), places, count, descending ? ~uint64_t(0) >> (64 - key_bits) : uint64_t(0),
                       with_row, key_bits, equal);
  sort_pairs(stream, keys.data(), places, count);
}
// use(places): launches what reads them.
template <class Use>
void with_order(Stream& stream, const Rows& rows, bool descending, bool equal, Use use) {
  const int64_t count = rows.count();
  if (count == 0) return;
  const Scratch<int64_t> places(stream, count);
  const int key_bits = 8 * int(size_of(rows.type)), bits = key_bits + std::bit_width(uint64_t(rows.x.size - 1));
  if (bits <= 32)
    order_rows<uint32_t>(stream, rows, key_bits, true, descending, equal, places.data());
  else
    order_rows<uint64_t>(stream, rows, key_bits, bits <= 64, descending, equal, places.data());
  if (bits > 64) {
    const Scratch<uint64_t> keys(stream, count);
    launch<make_row_keys>(stream, over(count), static_cast<const int64_t*>(places.data()), keys.data(), rows.length, count);
    sort_pairs(stream, keys.data(), places.data(), count);
  }
  use(static_cast<const int64_t*>(places.data()));
}

}  // namespace

template <class T>
void sort(Stream& stream, const View& x, const View& y, int axis, bool descending) {
  const Rows rows = rows_of(x, y, axis);
  with_order(stream, rows, descending, false, [&](const int64_t* places) {
    launch<take_values>(stream, over(rows.count()), places, rows, static_cast<void*>(y.data), rows.count(), sizeof(T));
  });
}

template <class T>
void argsort(Stream& stream, const View& x, const View& places, int axis, bool descending) {
  const Rows rows = rows_of(x, places, axis);
  with_order(stream, rows, descending, true, [&](const int64_t* sorted) {
    launch<take_places>(stream, over(rows.count()), sorted, rows, places.as<int64_t>(), rows.count());
  });
}

template <class T>
void top_k(Stream& stream, const View& x, const View& values, const View& places) {
  const Rows rows = rows_of(x, x, x.rank - 1);
  const int64_t k = values.shape[values.rank - 1], count = rows.x.size * k;
  if (k == 0) return;
  with_order(stream, rows, true, true, [&](const int64_t* sorted) {
    launch<take_first>(stream, over(count), sorted, rows, static_cast<void*>(values.data), places.as<int64_t>(), k, count, sizeof(T));
  });
}

template <class T>
void unique(Stream& stream, const View& x, const View& first, const View& which, const View& counts, const View& count) {
  const Rows rows = rows_of(x, x, x.rank - 1);
  const int64_t all = rows.count();
  if (rows.length == 0) return zero(stream, count);
  with_order(stream, rows, false, true, [&](const int64_t* places) {
    const Scratch<uint64_t> begun(stream, all);
    launch<mark_groups>(stream, over(all), places, rows, begun.data(), all);
    add_up(stream, begun.data(), all);
    const uint64_t* up_to = begun.data();
    launch<number_groups>(stream, over(all), places, up_to, first.as<int64_t>(), which.as<int64_t>(), counts.as<int64_t>(),
                          count.as<int64_t>(), rows.length, all);
    launch<count_groups>(stream, over(all), up_to, counts.as<int64_t>(), rows.length, all);
  });
}

template <class T>
void searchsorted(Stream& stream, const View& sorted, const View& values, const View& places, bool right) {
  const int64_t n = sorted.shape[sorted.rank - 1], total = values.size();
  if (total == 0) return;
  int64_t rows = 1;
  for (int a = 0; a + 1 < sorted.rank; ++a) rows *= sorted.shape[a];
  launch<search>(stream, over(total), static_cast<const void*>(sorted.data), static_cast<const void*>(values.data), sorted.dtype,
                 places.as<int64_t>(), n, total, total / rows, right);
}

namespace {
const GpuKernels<LAMINA_NUMERIC(sort), LAMINA_NUMERIC(argsort), LAMINA_NUMERIC(top_k), LAMINA_NUMERIC(unique), LAMINA_NUMERIC(searchsorted)>
    registered;
}

}  // namespace lamina::kernels::cuda
