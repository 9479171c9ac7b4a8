// Rules of ops for data_parallel (OpDef::rows), which several ops share.
#pragma once
#include "graph/ops/ops.h"

namespace lamina::ops {

// The shape of these rows of a value.
Shape shape_of_rows(Shape shape, ir::Cut cut, int64_t first, int64_t end);
// Element by element, with NumPy broadcasting; any number of results of one shape.
std::optional<ir::RowsRule> rows_elementwise(const ir::RowsCall& call);
// One input and results of its shape; rows do not mix unless they lie along `axis`.
std::optional<ir::RowsRule> rows_beside(const ir::RowsCall& call, int axis);
// All inputs and results have their rows along axis 0, except inputs in `whole`.
std::optional<ir::RowsRule> rows_of_images(const ir::RowsCall& call, std::initializer_list<size_t> whole = {});
// Matrices in the last two axes of the inputs: rows along an axis before them, which all inputs and results have.
std::optional<ir::RowsRule> rows_of_matrices(const ir::RowsCall& call);
// Replaces A::shape by that of the rows of result 0.
template <class A>
std::function<ir::AttrsRef(int64_t, int64_t)> attrs_with_shape(const ir::AttrsBase& attrs, ir::Cut cut) {
  return [a = ir::attrs_of<A>(attrs), cut](int64_t first, int64_t end) {
    A rows = a;
    rows.shape = shape_of_rows(rows.shape, cut, first, end);
    return ir::make_attrs(std::move(rows));
  };
}
// Whether the elements of some rows follow each other, and then the number of a row's first element among all.
bool rows_follow(const Shape& shape, ir::Cut cut);
int64_t first_element(const Shape& shape, ir::Cut cut, int64_t first_row);

}  // namespace lamina::ops
