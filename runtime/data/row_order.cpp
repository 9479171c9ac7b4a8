#include "runtime/data/row_order.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <utility>

#include "runtime/core/error.h"

namespace lamina::data {
namespace {

class AllRows final : public RowOrder {
 public:
  explicit AllRows(int64_t count) : count_(count) {}
  std::unique_ptr<RowPass> start() const override { return std::make_unique<Pass>(count_); }
  std::optional<int64_t> size() const override { return count_; }

 private:
  struct Pass final : RowPass {
    explicit Pass(int64_t n) : count(n) {}
    bool next(Rows& out) override {
      if (row == count) return false;
      out.rows.assign(1, row++);
      out.stack.clear();
      return true;
    }
    int64_t count, row = 0;
  };
  int64_t count_;
};

class Batches final : public RowOrder {
 public:
  Batches(RowOrderRef order, int64_t n, bool drop_remainder) : order_(std::move(order)), n_(n), drop_(drop_remainder) {}
  std::unique_ptr<RowPass> start() const override { return std::make_unique<Pass>(order_->start(), n_, drop_); }
  std::optional<int64_t> size() const override {
    const std::optional<int64_t> elements = order_->size();
    if (!elements) return {};
    return *elements / n_ + (!drop_ && *elements % n_ != 0);
  }

 private:
  struct Pass final : RowPass {
    Pass(std::unique_ptr<RowPass> from, int64_t n, bool drop) : from(std::move(from)), n(n), drop(drop) {}
    bool next(Rows& out) override {
      out.rows.clear();
      int64_t taken = 0;
      while (taken < n && from->next(element)) {
        if (taken == 0) out.stack = element.stack;
        if (out.stack != element.stack) {
          throw Error(ErrorKind::invalid_argument, {.what = "Dataset: cannot batch elements of different size",
                                                    .where = "batch of a batched dataset",
                                                    .why = cat("one has ", element.stack.front(), " rows, another ", out.stack.front()),
                                                    .fix = "pass drop_remainder to the inner batch"});
        }
        out.rows.insert(out.rows.end(), element.rows.begin(), element.rows.end());
        ++taken;
      }
      if (taken == 0 || (drop && taken < n)) return false;
      out.stack.insert(out.stack.begin(), taken);
      return true;
    }
    std::unique_ptr<RowPass> from;
    int64_t n;
    bool drop;
    Rows element;
  };
  RowOrderRef order_;
  int64_t n_;
  bool drop_;
};

// The standard fixes the engine's output, but not its distributions.
class Choice {
 public:
  Choice(uint64_t seed, uint64_t pass) {
    std::seed_seq seeds{uint32_t(seed), uint32_t(seed >> 32), uint32_t(pass), uint32_t(pass >> 32)};
    engine_.seed(seeds);
  }
  // Uniform in [0, n): rejects values in the incomplete last interval of n.
  uint64_t below(uint64_t n) {
    const uint64_t rest = (std::mt19937_64::max() % n + 1) % n;
    uint64_t x = engine_();
    while (x > std::mt19937_64::max() - rest) x = engine_();
    return x % n;
  }

 private:
  std::mt19937_64 engine_;
};

class Shuffled final : public RowOrder {
 public:
  Shuffled(RowOrderRef order, int64_t window, uint64_t seed) : order_(std::move(order)), window_(window), seed_(seed) {}
  std::unique_ptr<RowPass> start() const override { return std::make_unique<Pass>(order_->start(), window_, Choice(seed_, passes_++)); }
  std::optional<int64_t> size() const override { return order_->size(); }

 private:
  struct Pass final : RowPass {
    Pass(std::unique_ptr<RowPass> from, int64_t window, Choice choice) : from(std::move(from)), window(window), choice(choice) {}
    bool next(Rows& out) override {
      Rows element;
      while (int64_t(held.size()) < window && from->next(element)) held.push_back(std::move(element));
      if (held.empty()) return false;
      std::swap(held[choice.below(held.size())], held.back());
      out = std::move(held.back());
      held.pop_back();
      return true;
    }
    std::unique_ptr<RowPass> from;
    int64_t window;
    Choice choice;
    std::vector<Rows> held;
  };
  RowOrderRef order_;
  int64_t window_;
  uint64_t seed_;
  mutable std::atomic<uint64_t> passes_{0};
};

class Repeated final : public RowOrder {
 public:
  Repeated(RowOrderRef order, std::optional<int64_t> times) : order_(std::move(order)), times_(times) {}
  std::unique_ptr<RowPass> start() const override { return std::make_unique<Pass>(order_, times_); }
  std::optional<int64_t> size() const override {
    const std::optional<int64_t> once = order_->size();
    if (once == 0 || times_ == 0) return 0;
    int64_t total = 0;
    if (!once || !times_ || __builtin_mul_overflow(*once, *times_, &total)) return {};
    return total;
  }

 private:
  struct Pass final : RowPass {
    Pass(RowOrderRef order, std::optional<int64_t> times) : order(std::move(order)), left(times) {}
    bool next(Rows& out) override {
      while (true) {
        bool fresh = false;
        if (!from) {
          if (left && (*left)-- <= 0) {
            left = 0;
            return false;
          }
          from = order->start();
          fresh = true;
        }
        if (from->next(out)) return true;
        from.reset();
        if (fresh) {  // an empty pass: repeating it would never end
          left = 0;
          return false;
        }
      }
    }
    RowOrderRef order;
    std::optional<int64_t> left;
    std::unique_ptr<RowPass> from;
  };
  RowOrderRef order_;
  std::optional<int64_t> times_;
};

void require_positive(const char* what, int64_t n) {
  if (n > 0) return;
  throw Error(ErrorKind::invalid_argument,
              {.what = cat("Dataset: ", what, " of ", n), .where = "", .why = "it must be positive", .fix = "pass 1 or more"});
}

}  // namespace

RowOrderRef all_rows(int64_t count) { return std::make_shared<AllRows>(count); }

RowOrderRef batch_rows(RowOrderRef order, int64_t n, bool drop_remainder) {
  require_positive("a batch", n);
  return std::make_shared<Batches>(std::move(order), n, drop_remainder);
}

RowOrderRef shuffle_rows(RowOrderRef order, int64_t window, uint64_t seed) {
  require_positive("a shuffle window", window);
  return std::make_shared<Shuffled>(std::move(order), window, seed);
}

RowOrderRef repeat_rows(RowOrderRef order, std::optional<int64_t> times) {
  if (times && *times < 0) {
    throw Error(ErrorKind::invalid_argument, {.what = cat("Dataset: repeat ", *times, " times"),
                                              .where = "",
                                              .why = "the number is negative",
                                              .fix = "pass 0 or more, or no number to repeat without end"});
  }
  return std::make_shared<Repeated>(std::move(order), times);
}

void gather_rows(void* to, const void* from, int64_t row_bytes, const std::vector<int64_t>& rows) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  for (const int64_t row : rows) {
    if (row_bytes > 0) std::memcpy(out, in + row * row_bytes, static_cast<size_t>(row_bytes));
    out += row_bytes;
  }
}

}  // namespace lamina::data
