// Elements become unsigned keys with the same order, which sort_isa.cpp sorts. Indices travel with the keys, in the lower bits of 64-bit
// words. Rows are shared among threads.
#include "kernels/sort.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/shared_out.h"
#include "kernels/cpu/sort_table.h"
#include "kernels/cpu/strided.h"
#include "runtime/core/config.h"

namespace lamina::kernels::cpu {
namespace {

constexpr int64_t kFew = 64;                      // values of top_k that are kept in order while a row is read
constexpr int64_t kSortWorthThreads = 16 * 1024;  // elements

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
    return key_of_float<K>(compute_t<T>(v));
  }
}
template <class T>
T value_of(KeyOf<T> key) {
  using K = KeyOf<T>;
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      return T(std::make_signed_t<K>(key ^ K(1) << (8 * sizeof(K) - 1)));
    else
      return T(key);
  } else {
    return T(float_of_key<compute_t<T>>(key));
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

const SortTable& sort_table() {
#ifdef LAMINA_HAS_AVX
  const std::string& isa = config::cpu_isa();
  if (isa == "avx512") return avx512::sort_table;
  if (isa == "avx2") return avx2::sort_table;
#endif
  return scalar::sort_table;
}
template <class K>
void sort_keys(std::vector<K>& keys, std::vector<K>& other) {
  other.resize(keys.size());
  if constexpr (sizeof(K) == 4)
    sort_table().u32(keys.data(), int64_t(keys.size()), other.data());
  else
    sort_table().u64(keys.data(), int64_t(keys.size()), other.data());
}

template <class T>
const auto& sort_floats() {
  if constexpr (sizeof(T) == 4)
    return sort_table().f32;
  else
    return sort_table().f64;
}

// --- rows ---

// Calls f(i, element) for each element of a row.
template <class T, class F>
void each_element(T* x, int64_t step, int64_t n, F f) {
  if (step == 1)  // the compiler uses vectors
    for (int64_t i = 0; i < n; ++i) f(i, x[i]);
  else
    for (int64_t i = 0; i < n; ++i) f(i, x[i * step]);
}

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

// The elements of a row in order; of equal ones, the first comes first. A word has as much of a key as fits above the index; words whose
// parts of keys are equal are put in order afterwards.
template <class T>
class Order {
 public:
  using K = KeyOf<T>;
  explicit Order(int64_t n) : n_(n), bits_(std::bit_width(uint64_t(std::max<int64_t>(n - 1, 0)))), words_(static_cast<size_t>(n)) {}

  void sort(const T* x, int64_t step, bool descending) {
    x_ = x, step_ = step, descending_ = descending;
    const K flip = descending ? ~K(0) : K(0);
    uint64_t* words = words_.data();
    const int bits = bits_;
    each_element(x, step, n_, [=](int64_t i, T v) { words[i] = aligned(K(equal_key(v) ^ flip)) >> bits << bits | uint64_t(i); });
    sort_keys(words_, other_);
    if (bits_ > 64 - 8 * int(sizeof(K))) sort_ties();
  }
  int64_t place(int64_t i) const { return int64_t(words_[size_t(i)] & ((uint64_t(1) << bits_) - 1)); }
  K key(int64_t i) const {
    const K k = equal_key(x_[i * step_]);
    return descending_ ? K(~k) : k;
  }

 private:
  static uint64_t aligned(K key) { return uint64_t(key) << (64 - 8 * int(sizeof(K))); }
  void sort_ties() {
    const auto before = [this](uint64_t a, uint64_t b) {
      const int64_t i = int64_t(a & ((uint64_t(1) << bits_) - 1)), j = int64_t(b & ((uint64_t(1) << bits_) - 1));
      const K at_i = key(i), at_j = key(j);
      return at_i != at_j ? at_i < at_j : i < j;
    };
    for (size_t end, begin = 0; begin < words_.size(); begin = end) {
      for (end = begin + 1; end < words_.size() && words_[end] >> bits_ == words_[begin] >> bits_;) ++end;
      if (end - begin > 1) std::sort(words_.begin() + int64_t(begin), words_.begin() + int64_t(end), before);
    }
  }

  const int64_t n_;
  const int bits_;  // of an index
  const T* x_ = nullptr;
  int64_t step_ = 1;
  bool descending_ = false;
  std::vector<uint64_t> words_, other_;
};

// The k largest elements, from the largest on; of equal ones, the first.
template <class T>
class Largest {
 public:
  explicit Largest(int64_t k) : k_(size_t(k)) {}
  void find(const T* x, int64_t step, int64_t n) {
    constexpr int64_t kBlock = 32;
    items_.clear();
    int64_t i = 0;
    for (; i < n && items_.size() < k_; ++i) take(equal_key(x[i * step]), i);
    for (; i + kBlock <= n; i += kBlock) {  // few blocks have an element that is larger than the k found so far
      const KeyOf<T> least = items_.back().first;
      int any = 0;
      if (step == 1)
        for (int64_t j = 0; j < kBlock; ++j) any |= equal_key(x[i + j]) > least;
      else
        any = 1;
      for (int64_t j = i; any && j < i + kBlock; ++j) take(equal_key(x[j * step]), j);
    }
    for (; i < n; ++i) take(equal_key(x[i * step]), i);
  }
  int64_t place(int64_t i) const { return items_[size_t(i)].second; }

 private:
  using Item = std::pair<KeyOf<T>, int64_t>;
  void take(KeyOf<T> key, int64_t place) {
    if (items_.size() == k_) {
      if (key <= items_.back().first) return;
      items_.pop_back();
    }
    const Item item(key, place);
    items_.insert(std::upper_bound(items_.begin(), items_.end(), item, [](const Item& a, const Item& b) { return a.first > b.first; }),
                  item);
  }
  const size_t k_;
  std::vector<Item> items_;
};

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
      const KeyOf<T> flip = descending ? ~KeyOf<T>(0) : 0;
      KeyOf<T>* key = keys.data();
      if constexpr (std::is_same_v<T, compute_t<T>> && !std::is_integral_v<T>) {
        if (rows.step == 1 && rows.y_step == 1) {
          const auto& loops = sort_floats<T>();
          loops.keys(from, rows.length, flip, key);
          sort_keys(keys, other);
          loops.values(key, rows.length, flip, to);
          continue;
        }
      }
      each_element(from, rows.step, rows.length, [=](int64_t i, T v) { key[i] = key_of(v) ^ flip; });
      sort_keys(keys, other);
      each_element(to, rows.y_step, rows.length, [=](int64_t i, T& v) { v = value_of<T>(key[i] ^ flip); });
    }
  });
}

template <class T>
void argsort(Stream& stream, const View& x, const View& places, int axis, bool descending) {
  const Rows rows(x, places, axis);
  share_out(stream, rows.count, rows.count * rows.length, kSortWorthThreads, [&](int64_t begin, int64_t end) {
    Order<T> order(rows.length);
    for (int64_t r = begin; r < end; ++r) {
      order.sort(x.as<const T>() + rows.offset(r, rows.x), rows.step, descending);
      int64_t* to = places.as<int64_t>() + rows.offset(r, rows.y);
      for (int64_t i = 0; i < rows.length; ++i) to[i * rows.y_step] = order.place(i);
    }
  });
}

template <class T>
void top_k(Stream& stream, const View& x, const View& values, const View& places) {
  const Rows rows(x, x, x.rank - 1);
  const int64_t k = values.shape[values.rank - 1];
  if (k == 0) return;
  const bool few = k <= kFew && k <= rows.length / 8;
  share_out(stream, rows.count, rows.count * rows.length, kSortWorthThreads, [&](int64_t begin, int64_t end) {
    Order<T> order(few ? 0 : rows.length);
    Largest<T> largest(k);
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x.as<const T>() + rows.offset(r, rows.x);
      few ? largest.find(from, rows.step, rows.length) : order.sort(from, rows.step, true);
      for (int64_t i = 0; i < k; ++i) {
        const int64_t place = few ? largest.place(i) : order.place(i);
        places.as<int64_t>()[r * k + i] = place;
        values.as<T>()[r * k + i] = from[place * rows.step];
      }
    }
  });
}

template <class T>
void unique(Stream& stream, const View& x, const View& first, const View& which, const View& counts, const View& count) {
  const Rows rows(x, x, x.rank - 1);
  const int64_t n = rows.length;
  share_out(stream, rows.count, rows.count * n, kSortWorthThreads, [&](int64_t begin, int64_t end) {
    Order<T> order(n);
    for (int64_t r = begin; r < end; ++r) {
      order.sort(x.as<const T>() + rows.offset(r, rows.x), rows.step, false);
      int64_t *f = first.as<int64_t>() + r * n, *w = which.as<int64_t>() + r * n, *c = counts.as<int64_t>() + r * n, found = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t place = order.place(i);
        if (i == 0 || order.key(place) != order.key(f[found - 1])) f[found] = place, c[found++] = 0;
        w[place] = found - 1;
        ++c[found - 1];
      }
      std::fill(f + found, f + n, n ? f[0] : 0);
      std::fill(c + found, c + n, 0);
      count.as<int64_t>()[r] = found;
    }
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
