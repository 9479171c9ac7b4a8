// Selecting and changing elements by position, as in NumPy. x[...] itself is index() in op_functions.h. A part of kind tensor is an integer
// tensor, or a bool tensor, which covers as many axes as it has. Several such parts broadcast together; if slices stand between them, their
// axes come first. The result of a bool tensor has a length known only from data: an error while tracing, unless the bool tensor is a
// constant.
#pragma once
#include <vector>

#include "graph/functions/op_functions.h"
#include "kernels/scatter.h"

namespace lamina {

using kernels::ScatterMode;

// x with the elements x[parts...] changed: at(x, {IndexPart::at(3)}).set(0). Values have x's dtype and broadcast to the shape of
// x[parts...]. An element selected several times is changed several times, in order; for set the last one counts.
class LAMINA_API At {
 public:
  At(Tensor x, std::vector<IndexPart> parts, CallSite at) : x_(std::move(x)), parts_(std::move(parts)), at_(at) {}
  Tensor get() const { return index(Operand(x_, at_), parts_); }
  Tensor set(const Operand& values) const { return update(values, ScatterMode::set); }
  Tensor add(const Operand& values) const { return update(values, ScatterMode::add); }
  Tensor mul(const Operand& values) const { return update(values, ScatterMode::mul); }
  Tensor min(const Operand& values) const { return update(values, ScatterMode::min); }
  Tensor max(const Operand& values) const { return update(values, ScatterMode::max); }
  Tensor update(const Operand& values, ScatterMode mode) const;

 private:
  Tensor x_;
  std::vector<IndexPart> parts_;
  CallSite at_;
};
inline At at(const Operand& x, std::vector<IndexPart> parts) { return At(x.resolve(), std::move(parts), x.at()); }

// Elements of the flattened x; with an axis, slices along it. An index out of range is an error of kind index at run time.
LAMINA_API Tensor take(const Operand& x, const Operand& indices);
LAMINA_API Tensor take(const Operand& x, const Operand& indices, int axis);
// Element [..., i, ...] of the result is x[..., indices[..., i, ...], ...], with i along the axis; the other axes broadcast.
LAMINA_API Tensor take_along_axis(const Operand& x, const Operand& indices, int axis);
// indices [..., k]: the last axis holds indices into the first k axes of x. Result [..., x's remaining axes].
LAMINA_API Tensor gather_nd(const Operand& x, const Operand& indices);
// Zeros of a shape with updates added at the elements that gather_nd would read.
LAMINA_API Tensor scatter_nd(const Operand& indices, const Operand& updates, const Shape& shape);
// Zeros of a shape with updates added along one axis at integer indices: gather's gradient.
LAMINA_API Tensor scatter_add(const Operand& updates, const Operand& indices, const Shape& shape, int axis = 0);
// Indices of elements that are not 0 (false): one i64 vector per axis, in row-major order. While tracing, their length must be known.
LAMINA_API std::vector<Tensor> nonzero(const Operand& x);
// The first `size` of them, padded with `fill`.
LAMINA_API std::vector<Tensor> nonzero(const Operand& x, int64_t size, int64_t fill = 0);

}  // namespace lamina
