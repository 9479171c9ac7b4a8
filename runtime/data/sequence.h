// Sequence: items read one after another in passes. A dataset is made of two kinds: sequences of rows (row_order.h), where only numbers of
// rows are moved, and sequences of elements (graph/nn/elements.h). The steps in this file work on both.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/core/interrupt.h"
#include "runtime/data/choice.h"

namespace lamina::data {

template <class T>
class PassOf {
 public:
  virtual ~PassOf() = default;
  virtual bool next(T& out) = 0;  // false at the end
  // Passes over the next n items without making them where that is possible; returns how many there were.
  virtual int64_t skip(int64_t n) {
    T item;
    int64_t done = 0;
    for (InterruptPoll poll; done < n && next(item); ++done) poll();
    return done;
  }
};

template <class T>
class Sequence {
 public:
  virtual ~Sequence() = default;
  virtual std::unique_ptr<PassOf<T>> start() const = 0;
  virtual std::optional<int64_t> size() const = 0;  // items per pass; empty when endless or unknown
  virtual bool endless() const { return false; }
  virtual bool reordered() const { return false; }  // whether each pass has another order
};
template <class T>
using SequenceRef = std::shared_ptr<const Sequence<T>>;

inline void require_positive(const char* what, int64_t n) {
  if (n > 0) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("Dataset: ", what, " of ", n), .where = "", .why = "it must be positive", .fix = "pass 1 or more"});
}

// n consecutive items joined into one by `join`; the last may be of fewer, or is dropped.
template <class T>
class Batches final : public Sequence<T> {
 public:
  using Join = std::function<void(std::vector<T>& items, T& out)>;
  Batches(SequenceRef<T> from, int64_t n, bool drop_remainder, Join join)
      : from_(std::move(from)), n_(n), drop_(drop_remainder), join_(std::move(join)) {
    require_positive("a batch", n);
  }
  std::unique_ptr<PassOf<T>> start() const override { return std::make_unique<Pass>(*this); }
  std::optional<int64_t> size() const override {
    const std::optional<int64_t> items = from_->size();
    return items ? std::optional(count(*items)) : std::nullopt;
  }
  bool endless() const override { return from_->endless(); }
  bool reordered() const override { return from_->reordered(); }

 private:
  int64_t count(int64_t items) const { return items / n_ + (!drop_ && items % n_ != 0); }
  struct Pass final : PassOf<T> {
    explicit Pass(const Batches& b) : from(b.from_->start()), n(b.n_), drop(b.drop_), join(b.join_) {}
    bool next(T& out) override {
      items.clear();
      T item;
      while (int64_t(items.size()) < n && from->next(item)) items.push_back(std::move(item));
      if (items.empty() || (drop && int64_t(items.size()) < n)) return false;
      join(items, out);
      return true;
    }
    int64_t skip(int64_t batches) override {
      int64_t items_wanted = 0;
      if (__builtin_mul_overflow(batches, n, &items_wanted)) items_wanted = INT64_MAX;
      const int64_t skipped = from->skip(items_wanted);
      return skipped / n + (!drop && skipped % n != 0);
    }
    std::unique_ptr<PassOf<T>> from;
    int64_t n;
    bool drop;
    Join join;
    std::vector<T> items;
  };
  SequenceRef<T> from_;
  int64_t n_;
  bool drop_;
  Join join_;
};

// Draws each item from a window of the next `window` ones; a window over all items makes every order equally likely. Each pass has an order
// of its own; all follow from the seed.
template <class T>
class Shuffled final : public Sequence<T> {
 public:
  Shuffled(SequenceRef<T> from, int64_t window, uint64_t seed) : from_(std::move(from)), window_(window), seed_(seed) {
    require_positive("a shuffle window", window);
  }
  std::unique_ptr<PassOf<T>> start() const override { return std::make_unique<Pass>(from_->start(), window_, Choice(seed_, passes_++)); }
  std::optional<int64_t> size() const override { return from_->size(); }
  bool endless() const override { return from_->endless(); }
  bool reordered() const override { return true; }

 private:
  struct Pass final : PassOf<T> {
    Pass(std::unique_ptr<PassOf<T>> source, int64_t length, Choice by) : from(std::move(source)), window(length), choice(by) {}
    bool next(T& out) override {
      T item;
      while (int64_t(held.size()) < window && from->next(item)) held.push_back(std::move(item));
      if (held.empty()) return false;
      std::swap(held[choice.below(held.size())], held.back());
      out = std::move(held.back());
      held.pop_back();
      return true;
    }
    std::unique_ptr<PassOf<T>> from;
    int64_t window;
    Choice choice;
    std::vector<T> held;
  };
  SequenceRef<T> from_;
  int64_t window_;
  uint64_t seed_;
  mutable std::atomic<uint64_t> passes_{0};
};

// `times` passes as one; without a number it never ends.
template <class T>
class Repeated final : public Sequence<T> {
 public:
  Repeated(SequenceRef<T> from, std::optional<int64_t> times) : from_(std::move(from)), times_(times) {
    if (!times || *times >= 0) return;
    throw Error(ErrorKind::invalid_argument, {.what = cat("Dataset: repeat ", *times, " times"),
                                              .where = "",
                                              .why = "the number is negative",
                                              .fix = "pass 0 or more, or no number to repeat without end"});
  }
  std::unique_ptr<PassOf<T>> start() const override { return std::make_unique<Pass>(from_, times_); }
  std::optional<int64_t> size() const override {
    const std::optional<int64_t> once = from_->size();
    if (once == 0 || times_ == 0) return 0;
    int64_t total = 0;
    if (!once || !times_ || __builtin_mul_overflow(*once, *times_, &total)) return {};
    return total;
  }
  bool endless() const override { return from_->size() != 0 && times_ != 0 && (from_->endless() || !times_); }
  bool reordered() const override { return from_->reordered(); }

 private:
  struct Pass final : PassOf<T> {
    Pass(SequenceRef<T> source, std::optional<int64_t> times) : sequence(std::move(source)), left(times) {}
    bool next(T& out) override {
      return advance([&] { return from->next(out) ? 1 : 0; }) > 0;
    }
    int64_t skip(int64_t n) override {
      int64_t done = 0;
      for (InterruptPoll poll; done < n; poll()) {
        const int64_t more = advance([&] { return from->skip(n - done); });
        if (more == 0) break;
        done += more;
      }
      return done;
    }
    // What `step` gives in the current pass, or in the next ones where that one is over.
    template <class Step>
    int64_t advance(Step step) {
      while (true) {
        const bool fresh = !from;
        if (fresh) {
          if (left && (*left)-- <= 0) {
            left = 0;
            return 0;
          }
          from = sequence->start();
        }
        if (const int64_t done = step(); done > 0) return done;
        from.reset();
        if (fresh) {  // an empty pass: repeating it would never end
          left = 0;
          return 0;
        }
      }
    }
    SequenceRef<T> sequence;
    std::optional<int64_t> left;
    std::unique_ptr<PassOf<T>> from;
  };
  SequenceRef<T> from_;
  std::optional<int64_t> times_;
};

// The items from number `begin` on, at most `most` of them.
template <class T>
class Sliced final : public Sequence<T> {
 public:
  Sliced(SequenceRef<T> from, int64_t begin, std::optional<int64_t> most) : from_(std::move(from)), begin_(begin), most_(most) {
    for (const int64_t n : {begin, most.value_or(0)}) {
      if (n >= 0) continue;
      throw Error(ErrorKind::invalid_argument,
                  {.what = cat("Dataset: ", n, " elements"), .where = "", .why = "the number is negative", .fix = "pass 0 or more"});
    }
  }
  std::unique_ptr<PassOf<T>> start() const override { return std::make_unique<Pass>(from_->start(), begin_, most_); }
  std::optional<int64_t> size() const override {
    if (from_->endless()) return most_;
    const std::optional<int64_t> all = from_->size();
    if (!all) return {};
    const int64_t left = std::max<int64_t>(*all - begin_, 0);
    return most_ ? std::min(left, *most_) : left;
  }
  bool endless() const override { return !most_ && from_->endless(); }
  bool reordered() const override { return from_->reordered(); }

 private:
  struct Pass final : PassOf<T> {
    Pass(std::unique_ptr<PassOf<T>> source, int64_t begin, std::optional<int64_t> most)
        : from(std::move(source)), before(begin), left(most) {}
    bool next(T& out) override {
      if (!enter() || left == 0 || !from->next(out)) return false;
      if (left) --*left;
      return true;
    }
    int64_t skip(int64_t n) override {
      if (!enter()) return 0;
      const int64_t done = from->skip(left ? std::min(n, *left) : n);
      if (left) *left -= done;
      return done;
    }
    bool enter() {  // false: there are not so many
      const int64_t wanted = std::exchange(before, 0);
      if (wanted > 0 && from->skip(wanted) < wanted) left = 0;
      return left != 0;
    }
    std::unique_ptr<PassOf<T>> from;
    int64_t before;
    std::optional<int64_t> left;
  };
  SequenceRef<T> from_;
  int64_t begin_;
  std::optional<int64_t> most_;
};

// The items with these numbers, which rise.
template <class T>
class Picked final : public Sequence<T> {
 public:
  using Numbers = std::shared_ptr<const std::vector<int64_t>>;
  Picked(SequenceRef<T> from, Numbers numbers) : from_(std::move(from)), numbers_(std::move(numbers)) {}
  std::unique_ptr<PassOf<T>> start() const override { return std::make_unique<Pass>(from_->start(), numbers_); }
  std::optional<int64_t> size() const override { return int64_t(numbers_->size()); }
  bool reordered() const override { return from_->reordered(); }

 private:
  struct Pass final : PassOf<T> {
    Pass(std::unique_ptr<PassOf<T>> source, Numbers chosen) : from(std::move(source)), numbers(std::move(chosen)) {}
    bool next(T& out) override {
      if (at == numbers->size()) return false;
      const int64_t gap = (*numbers)[at] - place;
      if (from->skip(gap) < gap || !from->next(out)) return false;
      place = (*numbers)[at++] + 1;
      return true;
    }
    int64_t skip(int64_t n) override {
      const size_t done = std::min(numbers->size() - at, size_t(n));
      at += done;
      return int64_t(done);
    }
    std::unique_ptr<PassOf<T>> from;
    Numbers numbers;
    size_t at = 0;
    int64_t place = 0;  // of the item that `from` gives next
  };
  SequenceRef<T> from_;
  Numbers numbers_;
};

// Numbers 0..total-1 in random order, cut into parts of these lengths; the numbers of each part rise.
LAMINA_API std::vector<std::shared_ptr<const std::vector<int64_t>>> random_parts(int64_t total, const std::vector<int64_t>& lengths,
                                                                                 uint64_t seed);

}  // namespace lamina::data
