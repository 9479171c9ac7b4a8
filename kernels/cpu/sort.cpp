// Elements become unsigned keys with the same order. Short rows are sorted by comparisons, others by radix sort (LSD), whose digits are as
// wide as counting them is worth.
// Indices travel with the keys; for 32-bit keys in the lower half of a 64-bit word. Rows are shared among threads.
#include "kernels/sort.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/indices.h"
#include "kernels/cpu/shared_out.h"
#include "kernels/cpu/strided.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kRadix = 96, kWideDigits = 16 * 1024;  // row lengths from which radix sort, and digits of 11 bits, are faster
constexpr int64_t kFew = 64;                             // values of top_k that are kept in order while a row is read
constexpr int64_t kSortWorthThreads = 16 * 1024;         // elements

// --- keys ---

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Smaller numbers have smaller keys; every NaN has the largest.
template <class T>
KeyOf<T> key_of(T v) {
  using K = KeyOf<T>;
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      return K(K(std::make_signed_t<K>(v)) ^ K(1) << (8 * sizeof(K) - 1));
    else
      return K(v);
  } else {
    const compute_t<T> wide(v);
    if (wide != wide) return ~K(0);
    K bits;
    std::memcpy(&bits, &wide, sizeof bits);
    return bits >> (8 * sizeof(K) - 1) ? ~bits : bits | K(1) << (8 * sizeof(K) - 1);
  }
}
template <class T>
T value_of(KeyOf<T> key) {
  using K = KeyOf<T>;
  constexpr K sign = K(1) << (8 * sizeof(K) - 1);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      return T(std::make_signed_t<K>(key ^ sign));
    else
      return T(key);
  } else {
    const K bits = key & sign ? key ^ sign : ~key;
    compute_t<T> wide;
    std::memcpy(&wide, &bits, sizeof bits);
    return T(wide);
  }
}
// The same key for 0 and -0.
template <class T>
KeyOf<T> equal_key(T v) {
  if constexpr (std::is_integral_v<T>)
    return key_of(v);
  else
    return key_of(v == v && compute_t<T>(v) == 0 ? T(compute_t<T>(0)) : v);
}

// A key with its index. Comparing whole items makes the sort stable.
struct Packed {
  uint64_t word;
  static Packed of(uint32_t key, int64_t place) { return {uint64_t(key) << 32 | uint64_t(place)}; }
  uint32_t key() const { return uint32_t(word >> 32); }
  int64_t place() const { return int64_t(word & 0xffffffff); }
  bool operator<(const Packed& o) const { return word < o.word; }
};
template <class K>
struct Wide {
  K first;
  int64_t second;
  static Wide of(K key, int64_t place) { return {key, place}; }
  K key() const { return first; }
  int64_t place() const { return second; }
  bool operator<(const Wide& o) const { return first != o.first ? first < o.first : second < o.second; }
};

template <class K>
K key_in(K key)
  requires std::is_integral_v<K>
{
  return key;
}
template <class I>
auto key_in(const I& item)
  requires(!std::is_integral_v<I>)
{
  return item.key();
}

template <int kBits, class Count, class I>
void radix_sort(std::vector<I>& items, std::vector<I>& other) {
  const int64_t n = int64_t(items.size());
  using K = decltype(key_in(items[0]));
  constexpr int kDigits = (8 * int(sizeof(K)) + kBits - 1) / kBits;
  constexpr K kMask = (K(1) << kBits) - 1;
  std::vector<Count> counts(size_t(kDigits) << kBits, 0);
  for (const I& item : items) {
    const K key = key_in(item);
    for (int d = 0; d < kDigits; ++d) ++counts[(size_t(d) << kBits) + size_t(key >> (d * kBits) & kMask)];
  }
  other.resize(items.size());
  for (int d = 0; d < kDigits; ++d) {
    Count* count = counts.data() + (size_t(d) << kBits);
    if (int64_t(count[size_t(key_in(items[0]) >> (d * kBits) & kMask)]) == n) continue;  // all have the same digit
    Count place = 0;
    for (size_t i = 0; i <= size_t(kMask); ++i) place += std::exchange(count[i], place);
    for (const I& item : items) other[size_t(count[size_t(key_in(item) >> (d * kBits) & kMask)]++)] = item;
    items.swap(other);
  }
}

// Stable sort of items by key; `other` is a buffer of the same length. The result is in `items`.
template <class I>
void sort_items(std::vector<I>& items, std::vector<I>& other) {
  const int64_t n = int64_t(items.size());
  if (n < kRadix) return std::sort(items.begin(), items.end());
  n < kWideDigits ? radix_sort<8, uint32_t>(items, other) : radix_sort<11, int64_t>(items, other);
}

// --- rows ---

// The rows of x along an axis; y has the same layout, contiguous.
struct Rows {
  int64_t count = 1, length, step, y_step;
  int rank = 0;
  int64_t shape[kMaxRank], x[kMaxRank], y[kMaxRank];
  Rows(const View& from, const View& to, int axis) : length(from.shape[axis]), step(from.strides[axis]), y_step(to.strides[axis]) {
    for (int a = 0; a < from.rank; ++a) {
      if (a == axis) continue;
      shape[rank] = from.shape[a], x[rank] = from.strides[a], y[rank] = to.strides[a];
      count *= from.shape[a], ++rank;
    }
  }
  int64_t offset(int64_t row, const int64_t* strides) const {
    int64_t at = 0;
    for (int a = rank - 1; a >= 0; --a) at += row % shape[a] * strides[a], row /= shape[a];
    return at;
  }
};

// The items of the k largest elements, from the largest on.
template <class T, class I>
void largest(const T* x, int64_t step, int64_t n, int64_t k, std::vector<I>& items) {
  items.clear();
  KeyOf<T> last = ~KeyOf<T>(0);  // of the k found so far
  for (int64_t i = 0; i < n; ++i) {
    const KeyOf<T> key = ~equal_key(x[i * step]);
    if (int64_t(items.size()) == k && key >= last) continue;  // equal ones that come later stay out
    if (int64_t(items.size()) == k) items.pop_back();
    const I item = I::of(key, i);
    items.insert(std::upper_bound(items.begin(), items.end(), item), item);
    last = items.back().key();
  }
}

// Calls use(items of the row) with keys and indices; `turned` for descending order.
template <class T, class I, class Use>
void each_order(const T* x, int64_t step, int64_t n, bool turned, std::vector<I>& items, std::vector<I>& other, Use use) {
  items.resize(size_t(n));
  for (int64_t i = 0; i < n; ++i) {
    const KeyOf<T> key = equal_key(x[i * step]);
    items[size_t(i)] = I::of(turned ? KeyOf<T>(~key) : key, i);
  }
  use(items, other);
}

// Calls f.operator()<I>() with the smallest item type for a key of T and an index below n.
template <class T, class F>
void with_items(int64_t n, F f) {
  if constexpr (sizeof(T) < 8) {
    if (n <= int64_t(UINT32_MAX)) return f.template operator()<Packed>();
  }
  f.template operator()<Wide<KeyOf<T>>>();
}

}  // namespace

template <class T>
void sort(Stream& stream, const View& x, const View& y, int axis, bool descending) {
  const Rows rows(x, y, axis);
  if (rows.length == 0) return;
  share_out(stream, rows.count, rows.count * rows.length, kSortWorthThreads, [&](int64_t begin, int64_t end) {
    std::vector<KeyOf<T>> keys(static_cast<size_t>(rows.length)), other;
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x.as<const T>() + rows.offset(r, rows.x);
      T* to = y.as<T>() + rows.offset(r, rows.y);
      for (int64_t i = 0; i < rows.length; ++i)
        keys[size_t(i)] = descending ? KeyOf<T>(~key_of(from[i * rows.step])) : key_of(from[i * rows.step]);
      sort_items(keys, other);
      for (int64_t i = 0; i < rows.length; ++i)
        to[i * rows.y_step] = value_of<T>(descending ? KeyOf<T>(~keys[size_t(i)]) : keys[size_t(i)]);
    }
  });
}

template <class T>
void argsort(Stream& stream, const View& x, const View& places, int axis, bool descending) {
  const Rows rows(x, places, axis);
  with_items<T>(rows.length, [&]<class I>() {
    share_out(stream, rows.count, rows.count * rows.length, kSortWorthThreads, [&](int64_t begin, int64_t end) {
      std::vector<I> items, other;
      for (int64_t r = begin; r < end; ++r)
        each_order(x.as<const T>() + rows.offset(r, rows.x), rows.step, rows.length, descending, items, other, [&](auto& in, auto& spare) {
          sort_items(in, spare);
          int64_t* to = places.as<int64_t>() + rows.offset(r, rows.y);
          for (int64_t i = 0; i < rows.length; ++i) to[i * rows.y_step] = in[size_t(i)].place();
        });
    });
  });
}

template <class T>
void top_k(Stream& stream, const View& x, const View& values, const View& places) {
  const Rows rows(x, x, x.rank - 1);
  const int64_t k = values.shape[values.rank - 1];
  with_items<T>(rows.length, [&]<class I>() {
    share_out(stream, rows.count, rows.count * rows.length, kSortWorthThreads, [&](int64_t begin, int64_t end) {
      std::vector<I> items, other;
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.as<const T>() + rows.offset(r, rows.x);
        if (k == 0) continue;
        if (k <= kFew && k <= rows.length / 8)
          largest(from, rows.step, rows.length, k, items);
        else
          each_order(from, rows.step, rows.length, true, items, other, [&](auto& in, auto& spare) {
            if (k <= rows.length / 8)
              std::partial_sort(in.begin(), in.begin() + k, in.end());
            else
              sort_items(in, spare);
          });
        for (int64_t i = 0; i < k; ++i) {
          const int64_t place = items[size_t(i)].place();
          places.as<int64_t>()[r * k + i] = place;
          values.as<T>()[r * k + i] = from[place * rows.step];
        }
      }
    });
  });
}

template <class T>
void unique(Stream& stream, const View& x, const View& first, const View& which, const View& counts, const View& count) {
  const Rows rows(x, x, x.rank - 1);
  const int64_t n = rows.length;
  with_items<T>(n, [&]<class I>() {
    share_out(stream, rows.count, rows.count * n, kSortWorthThreads, [&](int64_t begin, int64_t end) {
      std::vector<I> items, other;
      for (int64_t r = begin; r < end; ++r)
        each_order(x.as<const T>() + rows.offset(r, rows.x), rows.step, n, false, items, other, [&](auto& in, auto& spare) {
          sort_items(in, spare);
          int64_t *f = first.as<int64_t>() + r * n, *w = which.as<int64_t>() + r * n, *c = counts.as<int64_t>() + r * n, found = 0;
          for (int64_t i = 0; i < n; ++i) {
            if (i == 0 || in[size_t(i)].key() != in[size_t(i - 1)].key()) f[found] = in[size_t(i)].place(), c[found++] = 0;
            w[in[size_t(i)].place()] = found - 1;
            ++c[found - 1];
          }
          std::fill(f + found, f + n, n ? f[0] : 0);
          std::fill(c + found, c + n, 0);
          count.as<int64_t>()[r] = found;
        });
    });
  });
}

template <class T>
void searchsorted(Stream& stream, const View& sorted, const View& values, const View& places, bool right) {
  const int64_t n = sorted.shape[sorted.rank - 1];
  int64_t rows = 1;
  for (int a = 0; a + 1 < sorted.rank; ++a) rows *= sorted.shape[a];
  const int64_t total = values.size(), per_row = rows ? total / rows : 0;
  share_out(stream, total, 16 * total, kSortWorthThreads, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; ++v) {
      const T* row = sorted.as<const T>() + v / per_row * n;
      const KeyOf<T> key = equal_key(values.as<const T>()[v]);
      int64_t low = 0, left = n;
      while (left > 0) {
        const int64_t half = left / 2;
        const KeyOf<T> middle = equal_key(row[low + half]);
        if (middle < key || (right && middle == key))
          low += half + 1, left -= half + 1;
        else
          left = half;
      }
      places.as<int64_t>()[v] = low;
    }
  });
}

#define LAMINA_SORT(T)                                                                               \
  template void sort<T>(Stream&, const View&, const View&, int, bool);                               \
  template void argsort<T>(Stream&, const View&, const View&, int, bool);                            \
  template void top_k<T>(Stream&, const View&, const View&, const View&);                            \
  template void unique<T>(Stream&, const View&, const View&, const View&, const View&, const View&); \
  template void searchsorted<T>(Stream&, const View&, const View&, const View&, bool);
LAMINA_SORT(uint8_t)
LAMINA_SORT(int8_t)
LAMINA_SORT(int16_t) LAMINA_SORT(int32_t) LAMINA_SORT(int64_t) LAMINA_SORT(f16) LAMINA_SORT(bf16) LAMINA_SORT(float) LAMINA_SORT(double)
#undef LAMINA_SORT

}  // namespace lamina::kernels::cpu
