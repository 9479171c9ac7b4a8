// Steps that process whole rows, and copies. Lanes of a warp have a row; sums in the order of the row, in double, as on the CPU.
#pragma once
#include "kernels/cuda/section_reduce.h"
#include "kernels/shared/philox.h"

namespace lamina::kernels::cuda::resident {

// The lanes of a row: all of a warp, or fewer, so that a warp has up to four short rows at once.
struct LanesOfRow {
  static constexpr int kFewest = int(kWarp) / 4;
  int count;           // of a row
  int at_once, which;  // rows of the warp; which of them this lane has: none if it is not below
  LAMINA_DEVICE explicit LanesOfRow(int n) : count(n > int(kWarp) / 2 ? int(kWarp) : most(n, kFewest)) {
    at_once = 1 + rows_in(int(kWarp) - count), which = rows_in(int(lane()));
  }
  LAMINA_DEVICE int rows_in(int lanes) const { return int(lanes >= count) + int(lanes >= 2 * count) + int(lanes >= 3 * count); }
  // The first row that this warp has, and how far it is to its next.
  LAMINA_DEVICE int begin(const Rows& all) const { return all.begin + int(warp_index()) * at_once; }
  LAMINA_DEVICE int step() const { return kThreads / int(kWarp) * at_once; }
  // Of those that begin with `row`, whether there is one for this lane; its first lane, and this lane's element.
  LAMINA_DEVICE bool is_there(int row, int end) const { return which < at_once && row + which < end; }
  LAMINA_DEVICE int first() const { return which * count; }
  LAMINA_DEVICE int column() const { return int(lane()) - first(); }
};

// A row, of which each lane keeps its first element. Its functions need all lanes of the warp.
struct WarpRow {
  const float* x;
  int n;
  bool is_there;
  int first, column;
  float own;
  // This lane's among the rows that begin with `row`.
  LAMINA_DEVICE WarpRow(const LanesOfRow& lanes, const float* from, int length, int row, int end)
      : x(from + (long long)(row + lanes.which) * length),
        n(length),
        is_there(lanes.is_there(row, end)),
        first(lanes.first()),
        column(lanes.column()),
        own(from_device(column)) {}
  LAMINA_DEVICE float from_device(int i) const {
    return is_there && i < n ? load_shared_between_blocks(x + i) : -scalar::float_of(0x7f800000);
  }
  LAMINA_DEVICE float at(int i) const { return i < int(kWarp) ? own : from_device(i); }  // of this lane
  template <class T>
  LAMINA_DEVICE T of(T value, int element) const {
    return shuffle(value, unsigned(first + element));
  }
  LAMINA_DEVICE float highest() const {
    float high = own;
    LAMINA_ROLLED
    for (int i = column + int(kWarp); i < n; i += int(kWarp)) {
      const float v = from_device(i);
      high = high < v ? v : high;
    }
    // The highest of 2, 4, ... neighbours from the own one on; the first lane's is that of all.
    LAMINA_UNROLL
    for (int by = 1; by < int(kWarp); by *= 2) {
      const float other = of(high, column + by < least(int(kWarp), n) ? column + by : column);
      high = high < other ? other : high;
    }
    return of(high, 0);
  }
  // The sum of all e^(x[i] - high).
  LAMINA_DEVICE double sum_of_exponentials(float high) const {
    double sum = 0;
    LAMINA_ROLLED
    for (int begin = 0; begin < n; begin += int(kWarp)) {
      const double e = double(scalar::exp(at(begin + column) - high));
      const int count = least(int(kWarp), n - begin);
      LAMINA_UNROLL_BY(5)
      for (int k = 0; k < count; ++k) sum += of(e, k);
    }
    return sum;
  }
  // y[i] = f(x[i]) for all elements, if the row is to be written.
  template <class F>
  LAMINA_DEVICE void store(float* y, bool writes, const F& f) const {
    LAMINA_ROLLED
    for (int i = writes ? column : n; i < n; i += int(kWarp)) y[i] = f(at(i));
  }
};

LAMINA_DEVICE void softmax(Block& b, const BlockStep& s) {
  const float* x = b.operand<const float>(0);
  float* y = b.operand<float>(1);
  const Rows mine = b.rows_of(s);
  const LanesOfRow lanes(s.n);
  for (int r = lanes.begin(mine); r < mine.end; r += lanes.step()) {
    const WarpRow row(lanes, x, s.n, r, mine.end);
    float* to = y + (row.x - x);
    const float high = row.highest();
    const double sum = row.sum_of_exponentials(high);
    if (s.kind == StepKind::softmax) {
      const float total = float(sum);
      row.store(to, row.is_there, [&](float v) { return scalar::exp(v - high) / total; });
    } else {
      const float log_sum = float(LAMINA_MATH(log)(sum));
      row.store(to, row.is_there, [&](float v) { return (v - high) - log_sum; });
    }
  }
}

LAMINA_DEVICE long long label_at(const char* labels, DType t, long long i) {
  switch (t) {
    case DType::u8: return load_shared_between_blocks(reinterpret_cast<const unsigned char*>(labels) + i);
    case DType::i8: return load_shared_between_blocks(reinterpret_cast<const signed char*>(labels) + i);
    case DType::i16: return load_shared_between_blocks(reinterpret_cast<const short*>(labels) + i);
    case DType::i32: return load_shared_between_blocks(reinterpret_cast<const int*>(labels) + i);
    default: return load_shared_between_blocks(reinterpret_cast<const long long*>(labels) + i);
  }
}

// False if a label is out of range; that row is then not written.
LAMINA_DEVICE bool cross_entropy(Block& b, const BlockStep& s) {
  const float* logits = b.operand<const float>(0);
  const char* labels = b.operand<const char>(1);
  const DType type = Block::record(b.current).operands[1].dtype;
  float* losses = b.operand<float>(2);
  float* probabilities = b.operand<float>(3);
  const Rows mine = b.rows_of(s);
  const LanesOfRow lanes(s.n);
  bool good = true;
  for (int r = lanes.begin(mine); r < mine.end; r += lanes.step()) {
    const WarpRow row(lanes, logits, s.n, r, mine.end);
    const int number = r + lanes.which;
    const long long label = row.is_there ? label_at(labels, type, number) : 0;
    const bool writes = row.is_there && label >= 0 && label < s.n, begins = row.column == 0;
    if (row.is_there && !writes) {
      good = false;
      if (begins) report(b.launch().faults, kBadLabel, label, s.n, number);
    }
    const float high = row.highest();
    const double sum = row.sum_of_exponentials(high);
    const float total = float(sum), log_sum = float(LAMINA_MATH(log)(sum));
    const float near = row.of(row.own, int(label));
    const float of_label = writes && label >= int(kWarp) ? row.from_device(int(label)) : near;
    row.store(probabilities + (row.x - logits), writes, [&](float v) { return scalar::exp(v - high) / total; });
    if (writes && begins) losses[number] = log_sum - (of_label - high);
  }
  return good;
}

// The gradient of its losses: (p - (label == class)) * factor. A function of its own, by values, as update().
LAMINA_CALLED void loss_gradient(char* const* at, int current, int model) {
  Block b(at, nullptr, 0);
  b.current = current, b.model = model;
  const BlockStep s = b.step();  // all of it with one wait
  const int* labels = b.operand<const int>(0);
  const int* classes = b.operand<const int>(1);
  const float* p = b.operand<const float>(2);
  float* y = b.operand<float>(3);
  const int* factor = b.code(s.code) + section::kCodeHeader + 3 + 1;  // its only constant
  const Rows mine = b.rows_of(s);
  const LanesOfRow lanes(s.n);
  for (int first = lanes.begin(mine); first < mine.end; first += lanes.step()) {
    const int r = first + lanes.which;
    const bool is_there = lanes.is_there(first, mine.end);
    LAMINA_ROLLED
    for (int i = is_there ? lanes.column() : s.n; i < s.n; i += int(kWarp)) {
      const long long at = (long long)r * s.n + i;
      const bool is_label = load_shared_between_blocks(labels + r) == load_shared_between_blocks(classes + i);
      y[at] = (load_shared_between_blocks(p + at) - (is_label ? 1.0f : 0.0f)) * scalar::float_of(load_shared_between_blocks(factor));
    }
  }
}

// One Philox block gives four elements of a draw.
LAMINA_DEVICE void dropout(Block& b, const BlockStep& s) {
  const float* x = b.operand<const float>(0);
  const long long* state = b.operand<const long long>(1);
  float* y = b.operand<float>(2);
  const Rows mine = b.rows_of(s);
  const long long begin = (long long)mine.begin * s.n, end = (long long)mine.end * s.n;
  const long long seed = load_shared_between_blocks(state), counter = load_shared_between_blocks(state + 1);
  const unsigned drop = philox::drop_below(s.scalar);
  const float scale = float(1 / (1 - double(s.scalar)));
  for (long long block = begin / 4 + thread_index(); block * 4 < end; block += kThreads) {
    const philox::Block words = philox::draw(seed, counter, block);
    LAMINA_UNROLL
    for (int w = 0; w < 4; ++w) {
      const long long i = block * 4 + w;
      if (i >= begin && i < end) y[i] = words.word[w] < drop ? 0.0f : load_shared_between_blocks(x + i) * scale;
    }
  }
}

// Elements [begin, end) of a copy. Index: as many bits as they need, since a GPU divides 64 bits slowly. A thread has several at once: an
// axis is read once for all, and their loads wait together.
template <class T, class Index>
LAMINA_DEVICE void copy_elements(const section::BlockCopy& c, const T* x, T* y, Index begin, Index end, unsigned thread) {
  constexpr int kAtOnce = 4;
  for (Index first = begin + Index(thread); first < end; first += kAtOnce * kThreads) {
    Index rest[kAtOnce];
    long long from[kAtOnce] = {}, to[kAtOnce] = {};
    LAMINA_UNROLL
    for (int e = 0; e < kAtOnce; ++e) rest[e] = first + Index(e * kThreads) < end ? first + Index(e * kThreads) : first;
    LAMINA_ROLLED
    for (int a = c.rank - 1; a > 0; --a) {
      const Index n = Index(c.shape[a]);
      const long long of_x = c.from[a], of_y = c.to[a];
      LAMINA_UNROLL
      for (int e = 0; e < kAtOnce; ++e) {
        const Index next = rest[e] / n;
        const long long at = (long long)(rest[e] - next * n);
        rest[e] = next, from[e] += at * of_x, to[e] += at * of_y;
      }
    }
    LAMINA_UNROLL
    for (int e = 0; e < kAtOnce; ++e) from[e] += (long long)rest[e] * c.from[0], to[e] += (long long)rest[e] * c.to[0];
    T v[kAtOnce];
    LAMINA_UNROLL
    for (int e = 0; e < kAtOnce; ++e) v[e] = load_shared_between_blocks(x + from[e]);
    LAMINA_UNROLL
    for (int e = 0; e < kAtOnce; ++e)
      if (first + Index(e * kThreads) < end) y[to[e]] = v[e];
  }
}
template <class T>
LAMINA_DEVICE void copy_of_type(const section::BlockCopy& c, const char* x, char* y, long long begin, long long end, unsigned thread) {
  const T* from = reinterpret_cast<const T*>(x);
  T* to = reinterpret_cast<T*>(y);
  if (end <= 0x7fffffff - 4 * kThreads)
    copy_elements<T, unsigned>(c, from, to, unsigned(begin), unsigned(end), thread);
  else
    copy_elements<T, unsigned long long>(c, from, to, (unsigned long long)begin, (unsigned long long)end, thread);
}
// The rows of a result, before its parts are written. A function of its own, by values, as update().
LAMINA_CALLED void zero_rows(char* y, long long begin, long long end, int element_bytes) {
  const int word = element_bytes >= 4 ? 4 : 1;
  for (long long at = begin + (long long)(thread_index() * word); at < end; at += kThreads * word)
    if (word == 4)
      *reinterpret_cast<unsigned*>(y + at) = 0;
    else
      y[at] = 0;
}
// Each input to its part of the result. The next input's elements are the next threads', so that few threads wait for several.
LAMINA_DEVICE void copy(Block& b, const BlockStep& s) {
  const section::BlockCopy* c = reinterpret_cast<const section::BlockCopy*>(b.launch().program + b.launch().places.copies_at) + s.copy;
  char* y = b.data<char>(s.first_out);
  const Rows rows = b.rows_of(s);
  if (s.zeroed) {
    const long long row_bytes = (long long)s.n * c->element_bytes;
    zero_rows(y, rows.begin * row_bytes, rows.end * row_bytes, c->element_bytes);
    sync_block();
  }
  unsigned before = 0;
  LAMINA_ROLLED
  for (int i = 0; i < s.ins; ++i, ++c) {
    const char* x = b.data<const char>(s.first_in + i);
    char* to = y + c->offset;
    const auto own = s.partition == Partition::rows
                         ? section::Share<long long>{rows.begin * c->row, rows.end * c->row}
                         : section::share<long long>(c->shape[0] * c->row, int(block_index()) - s.first_block, s.blocks);
    const unsigned thread = (thread_index() - before) % kThreads;
    before += unsigned(own.size());
    switch (c->element_bytes) {
      case 1: copy_of_type<unsigned char>(*c, x, to, own.begin, own.end, thread); break;
      case 2: copy_of_type<unsigned short>(*c, x, to, own.begin, own.end, thread); break;
      case 4: copy_of_type<unsigned>(*c, x, to, own.begin, own.end, thread); break;
      default: copy_of_type<long long>(*c, x, to, own.begin, own.end, thread); break;
    }
  }
}

}  // namespace lamina::kernels::cuda::resident
