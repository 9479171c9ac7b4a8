// Elements become unsigned keys of the same order, with their places behind them, and are sorted as a bitonic network: what lies within
// 1024 items in a block's shared memory, longer steps through global memory. Everything else reads the sorted items. Bound by memory.
#include "kernels/sort.h"

#include "kernels/cuda/scratch.h"
#include "kernels/cuda/sort_items.h"

namespace lamina::kernels::cuda {
namespace {

constexpr unsigned kTile = 1024;  // items: 16 KB of shared memory

// --- the network ---

LAMINA_DEVICE bool before(const Item& a, const Item& b) { return a.key != b.key ? a.key < b.key : a.place < b.place; }

// Items i and i + step change places where they are in the wrong order; a stretch of `size` ascends or descends by turns.
LAMINA_DEVICE void exchange(Item* items, int64_t i, int64_t step, bool ascending) {
  const Item a = items[i], b = items[i + step];
  if (before(b, a) == ascending) items[i] = b, items[i + step] = a;
}
// The lower item of pair p at this step.
LAMINA_DEVICE int64_t lower(int64_t p, int64_t step) { return p / step * (2 * step) + p % step; }

// Steps of at most half a tile, in shared memory: all sizes from `from` to `to`, of `to` the steps from half a tile on.
LAMINA_KERNEL(256) sort_tiles(Item* items, int64_t count, int64_t padded, int64_t from, int64_t to) {
  LAMINA_SHARED(Item, tile, kTile);
  for (int64_t first = int64_t(block_index()) * kTile; first < count; first += int64_t(block_count()) * kTile) {
    const int64_t n = count - first < int64_t(kTile) ? count - first : int64_t(kTile);
    for (int64_t i = thread_index(); i < n; i += kThreads) tile[i] = items[first + i];
    sync_block();
    for (int64_t size = from; size <= to; size *= 2)
      for (int64_t step = size / 2 < int64_t(kTile) / 2 ? size / 2 : int64_t(kTile) / 2; step > 0; step /= 2) {
        for (int64_t p = thread_index(); p < n / 2; p += kThreads) {
          const int64_t i = lower(p, step);
          exchange(tile, i, step, ((first + i) % padded & size) == 0);
        }
        sync_block();
      }
    for (int64_t i = thread_index(); i < n; i += kThreads) items[first + i] = tile[i];
    sync_block();
  }
}
LAMINA_KERNEL(256) exchange_far(Item* items, int64_t count, int64_t padded, int64_t size, int64_t step) {
  for (int64_t p = first_element(); p < count / 2; p += all_threads()) {
    const int64_t i = lower(p, step);
    exchange(items, i, step, (i % padded & size) == 0);
  }
}

// --- keys ---

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class K, class F>
LAMINA_DEVICE K bits_as(F v) {
  K bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

// Smaller numbers have smaller keys, every NaN the largest.
template <class T>
LAMINA_DEVICE KeyOf<T> key_of(T v) {
  using K = KeyOf<T>;
  constexpr K sign = K(1) << (8 * sizeof(K) - 1);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      return K(K(std::make_signed_t<K>(v)) ^ sign);
    else
      return K(v);
  } else {
    const compute_t<T> wide = widen(v);
    if (wide != wide) return K(~K(0));
    const K bits = bits_as<K>(wide);
    return bits & sign ? K(~bits) : K(bits | sign);
  }
}
template <class T>
LAMINA_DEVICE T value_of(KeyOf<T> key) {
  using K = KeyOf<T>;
  constexpr K sign = K(1) << (8 * sizeof(K) - 1);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>)
      return T(std::make_signed_t<K>(key ^ sign));
    else
      return T(key);
  } else {
    return narrow<T>(bits_as<compute_t<T>>(key & sign ? K(key ^ sign) : K(~key)));
  }
}
// The same key for 0 and -0.
template <class T>
LAMINA_DEVICE KeyOf<T> equal_key(T v) {
  if constexpr (!std::is_integral_v<T>)
    if (widen(v) == compute_t<T>(0)) v = narrow<T>(compute_t<T>(0));
  return key_of(v);
}

// --- rows ---

// Rows of x along an axis, and how a result laid out as x has them.
struct Rows {
  Axes x, y;
  int64_t length, x_step, y_step, padded;
};
Rows rows_of(const View& x, const View& y, int axis) {
  return {axes_without(x, axis), axes_without(y, axis), x.shape[axis], x.strides[axis], y.strides[axis], padded_length(x.shape[axis])};
}

template <class T>
LAMINA_KERNEL(256)
make_items(const T* x, Item* items, Rows rows, bool descending, bool by_place) {
  for (int64_t i = first_element(); i < rows.x.size * rows.padded; i += all_threads()) {
    const int64_t at = i % rows.padded;
    Item item{~uint64_t(0), INT64_MAX};
    if (at < rows.length) {
      const T v = x[rows.x.offset(i / rows.padded) + at * rows.x_step];
      const KeyOf<T> key = by_place ? equal_key(v) : key_of(v);
      item = {uint64_t(descending ? KeyOf<T>(~key) : key), at};
    }
    items[i] = item;
  }
}
template <class T>
LAMINA_KERNEL(256)
take_values(const Item* items, T* y, Rows rows, bool descending) {
  for (int64_t i = first_element(); i < rows.y.size * rows.length; i += all_threads()) {
    const int64_t row = i / rows.length, at = i % rows.length;
    const KeyOf<T> key = KeyOf<T>(items[row * rows.padded + at].key);
    y[rows.y.offset(row) + at * rows.y_step] = value_of<T>(descending ? KeyOf<T>(~key) : key);
  }
}
LAMINA_KERNEL(256) take_places(const Item* items, int64_t* places, Rows rows) {
  for (int64_t i = first_element(); i < rows.y.size * rows.length; i += all_threads()) {
    const int64_t row = i / rows.length, at = i % rows.length;
    places[rows.y.offset(row) + at * rows.y_step] = items[row * rows.padded + at].place;
  }
}
template <class T>
LAMINA_KERNEL(256)
take_first(const Item* items, const T* x, T* values, int64_t* places, Rows rows, int64_t k) {
  for (int64_t i = first_element(); i < rows.x.size * k; i += all_threads()) {
    const int64_t place = items[i / k * rows.padded + i % k].place;
    places[i] = place;
    values[i] = x[rows.x.offset(i / k) + place * rows.x_step];
  }
}

// A block takes a row, 256 items at a time. A group's number is how many groups begin up to its items; where it begins is kept in counts
// until its last item is seen.
LAMINA_KERNEL(256)
number_groups(const Item* items, int64_t* firsts, int64_t* which, int64_t* counts, int64_t* count, int64_t rows, int64_t n,
              int64_t padded) {
  LAMINA_SHARED(unsigned, begin_by, kThreads / kWarp);
  for (int64_t r = block_index(); r < rows; r += block_count()) {
    const Item* row = items + r * padded;
    int64_t groups = 0;
    for (int64_t first = 0; first < n; first += kThreads) {
      const int64_t i = first + thread_index();
      const bool begins = i < n && (i == 0 || row[i].key != row[i - 1].key), ends = i < n && (i == n - 1 || row[i + 1].key != row[i].key);
      const unsigned lanes = ballot(begins);
      if (lane() == 0) begin_by[warp_index()] = unsigned(count_bits(lanes));
      sync_block();
      unsigned up_to = unsigned(count_bits(lanes & (0xffffffffu >> (31 - lane())))), all = 0;
      for (unsigned w = 0; w < kThreads / kWarp; ++w) {
        if (w < warp_index()) up_to += begin_by[w];
        all += begin_by[w];
      }
      const int64_t group = groups + up_to - 1;
      if (begins) firsts[r * n + group] = row[i].place, counts[r * n + group] = i;
      if (i < n) which[r * n + row[i].place] = group;
      sync_block();
      if (ends) counts[r * n + group] = i + 1 - counts[r * n + group];
      groups += all;
      sync_block();
    }
    for (int64_t i = groups + thread_index(); i < n; i += kThreads) firsts[r * n + i] = row[0].place, counts[r * n + i] = 0;
    if (thread_index() == 0) count[r] = groups;
  }
}

template <class T>
LAMINA_KERNEL(256)
search(const T* sorted, const T* values, int64_t* places, int64_t n, int64_t total, int64_t per_row, bool right) {
  for (int64_t v = first_element(); v < total; v += all_threads()) {
    const T* row = sorted + v / per_row * n;
    const KeyOf<T> key = equal_key(values[v]);
    int64_t low = 0, left = n;
    while (left > 0) {
      const int64_t half = left / 2;
      const KeyOf<T> middle = equal_key(row[low + half]);
      if (middle < key || (right && middle == key))
        low += half + 1, left -= half + 1;
      else
        left = half;
    }
    places[v] = low;
  }
}

// Sorts the rows of x; `use` launches what reads the items.
template <class T, class Use>
void with_sorted(Stream& stream, const View& x, const Rows& rows, bool descending, bool by_place, Use use) {
  if (rows.x.size == 0 || rows.length == 0) return;
  const Scratch<Item> items(stream, rows.x.size * rows.padded);
  launch<make_items<T>>(stream, over(rows.x.size * rows.padded), x.as<const T>(), items.data(), rows, descending, by_place);
  sort_items(stream, items.data(), rows.x.size, rows.padded);
  use(static_cast<const Item*>(items.data()));
}

}  // namespace

void sort_items(Stream& stream, Item* items, int64_t rows, int64_t padded) {
  const int64_t count = rows * padded, blocks = (count + kTile - 1) / kTile;
  const LaunchShape tiles{.grid = {unsigned(blocks < kMostBlocks ? blocks : kMostBlocks)}, .threads = kThreads};
  const int64_t within = padded < int64_t(kTile) ? padded : int64_t(kTile);
  if (padded < 2) return;
  launch<sort_tiles>(stream, tiles, items, count, padded, int64_t(2), within);
  for (int64_t size = 2 * int64_t(kTile); size <= padded; size *= 2) {
    for (int64_t step = size / 2; step >= int64_t(kTile); step /= 2)
      launch<exchange_far>(stream, over(count / 2), items, count, padded, size, step);
    launch<sort_tiles>(stream, tiles, items, count, padded, size, size);
  }
}

template <class T>
void sort(Stream& stream, const View& x, const View& y, int axis, bool descending) {
  const Rows rows = rows_of(x, y, axis);
  with_sorted<T>(stream, x, rows, descending, false, [&](const Item* items) {
    launch<take_values<T>>(stream, over(rows.y.size * rows.length), items, y.as<T>(), rows, descending);
  });
}

template <class T>
void argsort(Stream& stream, const View& x, const View& places, int axis, bool descending) {
  const Rows rows = rows_of(x, places, axis);
  with_sorted<T>(stream, x, rows, descending, true, [&](const Item* items) {
    launch<take_places>(stream, over(rows.y.size * rows.length), items, places.as<int64_t>(), rows);
  });
}

template <class T>
void top_k(Stream& stream, const View& x, const View& values, const View& places) {
  const Rows rows = rows_of(x, x, x.rank - 1);
  const int64_t k = values.shape[values.rank - 1];
  if (k == 0) return;
  with_sorted<T>(stream, x, rows, true, true, [&](const Item* items) {
    launch<take_first<T>>(stream, over(rows.x.size * k), items, x.as<const T>(), values.as<T>(), places.as<int64_t>(), rows, k);
  });
}

template <class T>
void unique(Stream& stream, const View& x, const View& first, const View& which, const View& counts, const View& count) {
  const Rows rows = rows_of(x, x, x.rank - 1);
  if (rows.length == 0) return zero(stream, count);
  with_sorted<T>(stream, x, rows, false, true, [&](const Item* items) {
    launch<number_groups>(stream, {.grid = {unsigned(rows.x.size < kMostBlocks ? rows.x.size : kMostBlocks)}, .threads = kThreads}, items,
                          first.as<int64_t>(), which.as<int64_t>(), counts.as<int64_t>(), count.as<int64_t>(), rows.x.size, rows.length,
                          rows.padded);
  });
}

template <class T>
void searchsorted(Stream& stream, const View& sorted, const View& values, const View& places, bool right) {
  const int64_t n = sorted.shape[sorted.rank - 1], total = values.size();
  if (total == 0) return;
  int64_t rows = 1;
  for (int a = 0; a + 1 < sorted.rank; ++a) rows *= sorted.shape[a];
  launch<search<T>>(stream, over(total), sorted.as<const T>(), values.as<const T>(), places.as<int64_t>(), n, total, total / rows, right);
}

#define LAMINA_SORT(T)                                                                               \
  template void sort<T>(Stream&, const View&, const View&, int, bool);                               \
  template void argsort<T>(Stream&, const View&, const View&, int, bool);                            \
  template void top_k<T>(Stream&, const View&, const View&, const View&);                            \
  template void unique<T>(Stream&, const View&, const View&, const View&, const View&, const View&); \
  template void searchsorted<T>(Stream&, const View&, const View&, const View&, bool);
LAMINA_SORT(uint8_t)
LAMINA_SORT(int8_t)
LAMINA_SORT(int16_t)
LAMINA_SORT(int32_t)
LAMINA_SORT(int64_t)
LAMINA_SORT(f16)
LAMINA_SORT(bf16)
LAMINA_SORT(float)
LAMINA_SORT(double)
#undef LAMINA_SORT

}  // namespace lamina::kernels::cuda
