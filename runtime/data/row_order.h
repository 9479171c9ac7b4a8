// RowOrder: the order in which a dataset reads the rows of its tensors. All steps work on row numbers; each row is copied only once, when
// an element is read.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/core/export.h"

namespace lamina::data {

// One element: its rows, and how they are stacked. A single row has no stack; a batch of n has {n}.
struct Rows {
  std::vector<int64_t> rows;
  std::vector<int64_t> stack;
};

// One pass over the elements.
class RowPass {
 public:
  virtual ~RowPass() = default;
  virtual bool next(Rows& out) = 0;  // false at the end
};

class RowOrder {
 public:
  virtual ~RowOrder() = default;
  virtual std::unique_ptr<RowPass> start() const = 0;
  virtual std::optional<int64_t> size() const = 0;  // elements per pass; empty when endless
};
using RowOrderRef = std::shared_ptr<const RowOrder>;

LAMINA_API RowOrderRef all_rows(int64_t count);
// Joins n consecutive elements into one; the last one is smaller, or dropped. Throws invalid_argument unless n is positive. A pass throws
// when elements to be stacked differ in size.
LAMINA_API RowOrderRef batch_rows(RowOrderRef order, int64_t n, bool drop_remainder);
// Draws each element from a window of the next `window` ones; a window over all elements makes every order equally likely. Every pass is
// shuffled anew; all orders follow from the seed. Throws invalid_argument unless window is positive.
LAMINA_API RowOrderRef shuffle_rows(RowOrderRef order, int64_t window, uint64_t seed);
// Joins `times` passes into one; without a number it never ends.
LAMINA_API RowOrderRef repeat_rows(RowOrderRef order, std::optional<int64_t> times);

// Copies rows of `row_bytes` each to `to`, in order.
LAMINA_API void gather_rows(void* to, const void* from, int64_t row_bytes, const std::vector<int64_t>& rows);

}  // namespace lamina::data
