#include "runtime/data/row_order.h"

#include <algorithm>
#include <cstring>
#include <numeric>

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
    int64_t skip(int64_t n) override {
      const int64_t done = std::min(n, count - row);
      row += done;
      return done;
    }
    int64_t count, row = 0;
  };
  int64_t count_;
};

void join_rows(std::vector<Rows>& items, Rows& out) {
  out.rows.clear();
  out.stack = items.front().stack;
  for (const Rows& item : items) {
    if (out.stack != item.stack) {
      throw Error(ErrorKind::invalid_argument, {.what = "Dataset: cannot batch elements of different size",
                                                .where = "batch of a batched dataset",
                                                .why = cat("one has ", item.stack.front(), " rows, another ", out.stack.front()),
                                                .fix = "pass drop_remainder to the inner batch"});
    }
    out.rows.insert(out.rows.end(), item.rows.begin(), item.rows.end());
  }
  out.stack.insert(out.stack.begin(), int64_t(items.size()));
}

}  // namespace

RowOrderRef all_rows(int64_t count) { return std::make_shared<AllRows>(count); }

RowOrderRef batch_rows(RowOrderRef order, int64_t n, bool drop_remainder) {
  return std::make_shared<Batches<Rows>>(std::move(order), n, drop_remainder, join_rows);
}

void gather_rows(void* to, const void* from, int64_t row_bytes, const std::vector<int64_t>& rows) {
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  constexpr int64_t kAhead = 1024, kLine = 64;  // bytes of the next row that are fetched while this one is copied: rows lie anywhere
  for (size_t i = 0; i < rows.size() && row_bytes > 0; ++i) {
    if (i + 1 < rows.size())
      for (int64_t at = 0; at < std::min(row_bytes, kAhead); at += kLine) __builtin_prefetch(in + rows[i + 1] * row_bytes + at);
    std::memcpy(out, in + rows[i] * row_bytes, static_cast<size_t>(row_bytes));
    out += row_bytes;
  }
}

std::vector<std::shared_ptr<const std::vector<int64_t>>> random_parts(int64_t total, const std::vector<int64_t>& lengths, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(total));
  std::iota(order.begin(), order.end(), 0);
  Choice choice(seed, 0);
  for (size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[choice.below(left)]);
  std::vector<std::shared_ptr<const std::vector<int64_t>>> parts;
  auto from = order.begin();
  for (const int64_t length : lengths) {
    auto part = std::make_shared<std::vector<int64_t>>(from, from + length);
    std::sort(part->begin(), part->end());
    parts.push_back(std::move(part));
    from += length;
  }
  return parts;
}

}  // namespace lamina::data
