// Two ways, as in kernels/reduce.h: runs along a row (the last axis is reduced), or sums of rows (it is kept). Elements are read in place
// if they are contiguous and of the accumulation type; otherwise through a buffer in L1.
#include "kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/elementwise_table.h"
#include "kernels/cpu/reduce_table.h"
#include "kernels/cpu/strided.h"
#include "runtime/core/config.h"
#include "runtime/device/thread_pool.h"

namespace lamina::kernels::cpu {

const ReduceTable& reduce_table() {
#ifdef LAMINA_HAS_AVX
  const std::string& isa = config::cpu_isa();
  if (isa.size() == 4) return avx2::reduce_table;
  if (isa[0] == 'a') return avx512::reduce_table;
#endif
  return scalar::reduce_table;
}

namespace {

using section::Reduction;

constexpr int64_t kRows = 32;                                // of a block of the column way
constexpr int64_t kFewColumns = 256, kReduceColumns = 2048;  // of a tile of it: a row's part is long enough to stream, the sums fit in L1
constexpr int64_t kReduceWorthThreads = 64 * 1024;           // elements

Combine combine_of(Reduction op) {
  switch (op) {
    case Reduction::max: return Combine::max;
    case Reduction::min: return Combine::min;
    case Reduction::prod: return Combine::prod;
    default: return Combine::sum;
  }
}
ScalarOp scalar_of(Combine c) {
  switch (c) {
    case Combine::max: return ScalarOp::maximum;
    case Combine::min: return ScalarOp::minimum;
    case Combine::prod: return ScalarOp::mul;
    default: return ScalarOp::add;
  }
}

// Axes in order without those of length 1; neighbours that form one stride are merged.
struct ReduceAxes {
  int rank = 0;
  int64_t shape[kMaxRank] = {}, strides[kMaxRank] = {};
  int64_t size = 1;

  void add(int64_t length, int64_t stride, bool may_join) {
    size *= length;
    if (may_join && rank && strides[rank - 1] == stride * length) {
      shape[rank - 1] *= length, strides[rank - 1] = stride;
      return;
    }
    shape[rank] = length, strides[rank] = stride;
    ++rank;
  }
  Cursor at(int64_t i) const { return Cursor(rank, shape, i); }
  int64_t offset(const Cursor& c) const { return c.row_offset(strides) + (rank ? c.in_row * strides[rank - 1] : 0); }
};

// Adds any number of equally long parts as a balanced tree: part i is joined with its neighbour, then pairs, and so on.
template <class T, class Join>
class Tree {
 public:
  explicit Tree(Join join) : join_(join) {}
  void push(T part) {
    int level = 0;
    for (uint64_t n = count_++; n & 1; n >>= 1) part = join_(levels_[level++], part);
    levels_[level] = part;
  }
  T total() {
    T sum{};
    bool any = false;
    for (int level = 0; level < 64; ++level) {
      if (!(count_ >> level & 1)) continue;
      sum = any ? join_(levels_[level], sum) : levels_[level];
      any = true;
    }
    return sum;
  }

 private:
  Join join_;
  uint64_t count_ = 0;
  T levels_[64];
};

template <class T>
class Reducer {
 public:
  Reducer(const View& x, const View& out, Reduction op, uint32_t axes)
      : x_(x), out_(out), op_(op), combine_(combine_of(op)), table_(elementwise_table()), type_(dtype_of<T>()) {
    if constexpr (std::is_same_v<T, float>)
      run_ = reduce_table().f32[int(combine_)];
    else if constexpr (std::is_same_v<T, double>)
      run_ = reduce_table().f64[int(combine_)];
    else
      run_ = reduce_table().i64[int(combine_)];
    bool last_reduced = true, before = false;
    for (int a = 0; a < x.rank; ++a) {
      const int64_t length = x.shape[a];
      if (length == 1) continue;
      const bool reduced = axes >> a & 1, neighbours = (reduced_.rank || kept_.rank) && before == reduced;
      (reduced ? reduced_ : kept_).add(length, x.strides[a], neighbours);
      last_reduced = before = reduced;
    }
    by_rows_ = last_reduced;
    if (!by_rows_) {  // the last kept axis provides the columns
      const int last = --kept_.rank;
      columns_ = kept_.shape[last], step_ = kept_.strides[last];
      kept_.size /= std::max<int64_t>(1, columns_);
      if (columns_ == 0) kept_.size = 0;
    }
  }

  void operator()(int threads, Device device) {
    const int64_t outputs = out_.size();
    if (outputs == 0) return;
    if (reduced_.size == 0) return fill_empty(outputs);
    if (reduced_.size * outputs < kReduceWorthThreads) threads = 1;
    if (by_rows_ && kept_.size < threads * 2 && reduced_.size > kReduceWorthThreads && threads > 1) {
      for (int64_t k = 0; k < kept_.size; ++k) one_long(k, threads, device);
      return;
    }
    if (threads > 1 && !by_rows_) width_ = std::clamp((columns_ / threads + 63) / 64 * 64, kFewColumns, kReduceColumns);
    const int64_t units = by_rows_ ? kept_.size : kept_.size * tiles();
    if (threads == 1 || units == 1) return part(0, units);
    struct Context {
      Reducer* self;
      int64_t units;
    } context{this, units};
    ThreadPool::of(device).run(
        int(std::min<int64_t>(threads, units)),
        [](void* c, int thread, int count, ThreadPool::Barrier&) {
          auto [self, n] = *static_cast<Context*>(c);
          self->part(n * thread / count, n * (thread + 1) / count);
        },
        &context);
  }

 private:
  int64_t tiles() const { return (columns_ + width_ - 1) / width_; }
  const char* address(int64_t offset) const { return x_.as<char>() + offset * int64_t(lamina::size_of(x_.dtype)); }

  T join(T a, T b) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (combine_ == Combine::sum) return T(uint64_t(a) + uint64_t(b));
      if (combine_ == Combine::prod) return T(uint64_t(a) * uint64_t(b));
    } else {
      if (combine_ == Combine::sum) return a + b;
      if (combine_ == Combine::prod) return a * b;
      if (a != a) return a;
    }
    return combine_ == Combine::max ? (a > b ? a : b) : (a < b ? a : b);
  }

  // Elements of x's type as T.
  void convert(T* to, const void* from, int64_t n) const {
    if (x_.dtype == DType::f16) return table_.f16_to_f32(n, to, from, nullptr, nullptr);
    if (x_.dtype == DType::bf16) return table_.bf16_to_f32(n, to, from, nullptr, nullptr);
    if (Loop cast = table_.casts[int(compute_of(x_.dtype))][int(compute_of(type_))]) return cast(n, to, from, nullptr, nullptr);
    std::memcpy(to, from, size_t(n) * sizeof(T));
  }

  void store(int64_t first, const T* values, int64_t n) const {
    char* to = out_.as<char>() + first * int64_t(lamina::size_of(out_.dtype));
    T means[kReduceColumns];
    if (op_ == Reduction::mean) {
      for (int64_t i = 0; i < n; ++i) means[i] = values[i] / T(reduced_.size);
      values = means;
    }
    if (out_.dtype == DType::f16) return table_.f32_to_f16(n, to, values, nullptr, nullptr);
    if (out_.dtype == DType::bf16) return table_.f32_to_bf16(n, to, values, nullptr, nullptr);
    if (out_.dtype == DType::boolean) return table_.to_bool[int(compute_of(type_))](n, to, values, nullptr, nullptr);
    if (Loop cast = table_.casts[int(compute_of(type_))][int(compute_of(out_.dtype))]) return cast(n, to, values, nullptr, nullptr);
    std::memcpy(to, values, size_t(n) * sizeof(T));
  }

  void fill_empty(int64_t outputs) const {
    const T value = op_ == Reduction::mean   ? std::numeric_limits<T>::quiet_NaN()
                    : op_ == Reduction::prod ? T(1)
                                             : T(0);  // a mean is divided by 0 anyway
    for (int64_t i = 0; i < outputs; ++i) store(i, &value, 1);
  }

  void part(int64_t begin, int64_t end) const {
    if (begin >= end) return;
    if (by_rows_)
      rows(begin, end);
    else
      for (int64_t u = begin; u < end; ++u) tile(u / tiles(), u % tiles() * width_);
  }

  // --- along a row ---
  // The run starting at element `first` of the sequence that starts at `base`.
  T run(int64_t base, int64_t first, int64_t n) const {
    const bool in_a_row = reduced_.rank == 0 || (reduced_.rank == 1 && reduced_.strides[0] == 1);
    if (in_a_row) {
      const char* from = address(base + first);
      if (x_.dtype == type_) return run_(reinterpret_cast<const T*>(from), n);
      if (x_.dtype == DType::boolean && combine_ == Combine::sum) return T(reduce_table().count(reinterpret_cast<const uint8_t*>(from), n));
      T converted[kRun];
      convert(converted, from, n);
      return run_(converted, n);
    }
    T converted[kRun];
    alignas(8) char gathered[kRun * 8];
    const bool direct = x_.dtype == type_;
    gather(direct ? static_cast<void*>(converted) : gathered, address(base), lamina::size_of(x_.dtype), reduced_.strides, n,
           reduced_.at(first));
    if (!direct) convert(converted, gathered, n);
    return run_(converted, n);
  }

  T sequence(int64_t base) const {
    const int64_t n = reduced_.size;
    if (n <= kRun) return run(base, 0, n);
    Tree<T, decltype(joiner())> tree(joiner());
    for (int64_t first = 0; first < n; first += kRun) tree.push(run(base, first, std::min(kRun, n - first)));
    return tree.total();
  }
  auto joiner() const {
    return [this](T a, T b) { return join(a, b); };
  }

  void rows(int64_t begin, int64_t end) const {
    Cursor kept = kept_.at(begin);
    T values[kFewColumns];
    for (int64_t k = begin; k < end;) {
      const int64_t n = std::min(kFewColumns, end - k);
      for (int64_t i = 0; i < n; ++i) {
        values[i] = sequence(kept_.offset(kept));
        if (kept_.rank) kept.advance(1);
      }
      store(k, values, n);
      k += n;
    }
  }

  // Few outputs of long sequences: threads share the runs.
  void one_long(int64_t k, int threads, Device device) {
    const int64_t base = kept_.offset(kept_.at(k)), runs = (reduced_.size + kRun - 1) / kRun;
    std::vector<T> parts(static_cast<size_t>(runs));
    struct Context {
      const Reducer* self;
      int64_t base, runs;
      T* parts;
    } context{this, base, runs, parts.data()};
    ThreadPool::of(device).run(
        threads,
        [](void* c, int thread, int count, ThreadPool::Barrier&) {
          auto& [self, at, n, out] = *static_cast<Context*>(c);
          for (int64_t r = n * thread / count; r < n * (thread + 1) / count; ++r)
            out[r] = self->run(at, r * kRun, std::min(kRun, self->reduced_.size - r * kRun));
        },
        &context);
    Tree<T, decltype(joiner())> tree(joiner());
    for (T p : parts) tree.push(p);
    T total = tree.total();
    store(k, &total, 1);
  }

  // --- rows of columns ---
  // Combines two rows, one after the other; null if there is no such loop.
  Loop loop_of_two() const {
    if (type_ != DType::f32 && type_ != DType::f64) return nullptr;
    const int p = combine_ == Combine::sum ? 0 : combine_ == Combine::prod ? 2 : -1;  // in kPaired
    return p < 0 ? nullptr : table_.pairs[type_ == DType::f64][p][p][0];
  }
  void tile(int64_t k, int64_t first) const {
    const int64_t n = std::min(width_, columns_ - first), rows = reduced_.size;
    const int64_t base = kept_.offset(kept_.at(k)) + first * step_;
    const Loop combine = table_.loops[int(scalar_of(combine_))][int(compute_of(type_))], combine_two = loop_of_two();
    const bool direct = step_ == 1 && x_.dtype == type_;
    T buffer[kReduceColumns], block[kReduceColumns];
    alignas(8) char gathered[kReduceColumns * 8];
    Cursor row = reduced_.at(0);
    const Cursor columns(1, &columns_, 0);
    auto load = [&]() -> const T* {
      const char* from = address(base + reduced_.offset(row));
      if (direct) return reinterpret_cast<const T*>(from);
      if (step_ != 1) {
        gather(gathered, from, lamina::size_of(x_.dtype), &step_, n, columns);
        from = gathered;
      }
      convert(buffer, from, n);
      return buffer;
    };
    auto next_block = [&](int64_t count) {
      std::memcpy(block, load(), size_t(n) * sizeof(T));
      int64_t i = 1;
      for (; direct && combine_two && i + 2 <= count; i += 2) {
        row.advance(1);
        const T* from = load();
        row.advance(1);
        combine_two(n, block, block, from, load());
      }
      for (; i < count; ++i) {
        row.advance(1);
        combine(n, block, block, load(), nullptr);
      }
    };
    if (rows <= kRows) {
      next_block(rows);
      return store(k * columns_ + first, block, n);
    }
    // The tree of Tree for rows of n.
    std::vector<std::vector<T>> levels;
    uint64_t count = 0;
    for (int64_t done = 0; done < rows; done += kRows) {
      if (done) row.advance(1);
      next_block(std::min(kRows, rows - done));
      size_t level = 0;
      for (uint64_t c = count++; c & 1; c >>= 1, ++level) combine(n, block, levels[level].data(), block, nullptr);
      if (level == levels.size()) levels.emplace_back(static_cast<size_t>(n));
      std::memcpy(levels[level].data(), block, size_t(n) * sizeof(T));
    }
    bool any = false;
    for (size_t level = 0; level < levels.size(); ++level) {
      if (!(count >> level & 1)) continue;
      if (any)
        combine(n, block, levels[level].data(), block, nullptr);
      else
        std::memcpy(block, levels[level].data(), size_t(n) * sizeof(T));
      any = true;
    }
    store(k * columns_ + first, block, n);
  }

  const View& x_;
  const View& out_;
  const Reduction op_;
  const Combine combine_;
  const ElementwiseTable& table_;
  const DType type_;  // accumulation type
  RunLoop<T> run_ = nullptr;
  ReduceAxes reduced_, kept_;
  bool by_rows_ = true;
  int64_t columns_ = 1, step_ = 1;
  int64_t width_ = kReduceColumns;  // of a tile
};

void reduce(const View& x, const View& out, Reduction op, uint32_t axes, int threads, Device device) {
  if (x.dtype == DType::f64)
    Reducer<double>(x, out, op, axes)(threads, device);
  else if (is_floating(x.dtype))
    Reducer<float>(x, out, op, axes)(threads, device);
  else
    Reducer<int64_t>(x, out, op, axes)(threads, device);
}

}  // namespace

void reduce(Stream& stream, const View& x, const View& out, Reduction op, uint32_t axes) {
  reduce(x, out, op, axes, config::threads(), stream.device);
}

void reduce_matrix(Reduction op, section::Broadcast reduced, const float* x, float* out, int64_t rows, int64_t n) {
  View from, to;
  from.data = const_cast<float*>(x), from.rank = 2;
  from.shape[0] = rows, from.shape[1] = n, from.strides[0] = n, from.strides[1] = 1;
  to.data = out, to.rank = 1, to.strides[0] = 1;
  to.shape[0] = reduced == section::Broadcast::row ? n : reduced == section::Broadcast::column ? rows : 1;
  reduce(from, to, op, reduced == section::Broadcast::row ? 1u : reduced == section::Broadcast::column ? 2u : 3u, 1, Device{});
}

}  // namespace lamina::kernels::cpu
