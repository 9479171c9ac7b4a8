// RowOrder: in which order a dataset hands out the rows of its tensors. Rows are named here and copied once, when an element is
// finally wanted, however many steps the order went through.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/core/export.h"

namespace lamina::data {

// One element: the rows it takes, and how they are stacked. A single row has no stack; a batch of n has {n}.
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
  virtual std::optional<int64_t> size() const = 0;  // elements of a pass; nothing when it never ends
};
using RowOrderRef = std::shared_ptr<const RowOrder>;

LAMINA_API RowOrderRef all_rows(int64_t count);
// n elements in a row become one; the last one is smaller, or left out. Throws invalid_argument unless n is positive. A pass throws
// when it would stack elements of different size.
LAMINA_API RowOrderRef batch_rows(RowOrderRef order, int64_t n, bool drop_remainder);
// Each element is drawn from a window of the next `window` ones, so a window of all elements gives every order the same chance. Every
// pass is shuffled anew; the passes' orders follow from the seed. Throws invalid_argument unless window is positive.
LAMINA_API RowOrderRef shuffle_rows(RowOrderRef order, int64_t window, uint64_t seed);
// `times` passes in one; without a number it never ends.
LAMINA_API RowOrderRef repeat_rows(RowOrderRef order, std::optional<int64_t> times);

// Copies rows of `row_bytes` each to `to`, in order.
LAMINA_API void gather_rows(void* to, const void* from, int64_t row_bytes, const std::vector<int64_t>& rows);

}  // namespace lamina::data
