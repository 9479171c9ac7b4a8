// RowOrder: the order in which a dataset reads the rows of its tensors. All steps work on row numbers; each row is copied only once, when
// an element is read.
#pragma once
#include <vector>

#include "runtime/core/export.h"
#include "runtime/data/sequence.h"

namespace lamina::data {

// One element: its rows, and how they are stacked. A single row has no stack; a batch of n has {n}.
struct Rows {
  std::vector<int64_t> rows;
  std::vector<int64_t> stack;
};
using RowPass = PassOf<Rows>;
using RowOrder = Sequence<Rows>;
using RowOrderRef = SequenceRef<Rows>;

LAMINA_API RowOrderRef all_rows(int64_t count);
// Joins n consecutive elements into one; the last one is smaller, or dropped. Throws invalid_argument unless n is positive. A pass throws
// when elements to be stacked differ in size.
LAMINA_API RowOrderRef batch_rows(RowOrderRef order, int64_t n, bool drop_remainder);

// Copies rows of `row_bytes` each to `to`, in order.
LAMINA_API void gather_rows(void* to, const void* from, int64_t row_bytes, const std::vector<int64_t>& rows);

}  // namespace lamina::data
