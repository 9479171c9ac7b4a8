// Choosing and changing elements by position, in NumPy's sense. x[...] itself is index() in op_functions.h: a part of kind tensor is an
// integer tensor, or a bool tensor that stands for as many axes as it has. Several of them broadcast and are taken together; where slices
// stand between them, their axes come first. What a bool tensor selects has a length known only from data: it is an error while tracing,
// unless the bool tensor is a constant there.
#pragma once
#include <vector>

#include "graph/functions/op_functions.h"
#include "kernels/scatter.h"

namespace lamina {

using kernels::ScatterMode;

// x with the elements x[parts...] changed: at(x, {IndexPart::at(3)}).set(0). Values broadcast to what x[parts...] would be and have x's
// dtype. An element that is chosen several times is changed several times, in order; of several sets the last one counts.
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

// Elements of the flattened x; with an axis, the parts along it. An index out of range is an error of kind index when it runs.
LAMINA_API Tensor take(const Operand& x, const Operand& indices);
LAMINA_API Tensor take(const Operand& x, const Operand& indices, int axis);
// Element [..., i, ...] of the result is x[..., indices[..., i, ...], ...], with i along the axis; the other axes broadcast.
LAMINA_API Tensor take_along_axis(const Operand& x, const Operand& indices, int axis);
// indices [..., k]: the last axis holds places along the first k axes of x. Result [..., what is left of x's axes].
LAMINA_API Tensor gather_nd(const Operand& x, const Operand& indices);
// Zeros of a shape with updates added where gather_nd would read.
LAMINA_API Tensor scatter_nd(const Operand& indices, const Operand& updates, const Shape& shape);
// Zeros of a shape with updates added along one axis at integer indices: what gather's gradient is.
LAMINA_API Tensor scatter_add(const Operand& updates, const Operand& indices, const Shape& shape, int axis = 0);
// Where x is not 0 (false): one i64 vector per axis, in row-major order. While tracing their length must be known.
LAMINA_API std::vector<Tensor> nonzero(const Operand& x);
// The first `size` of them; what is missing is `fill`.
LAMINA_API std::vector<Tensor> nonzero(const Operand& x, int64_t size, int64_t fill = 0);

}  // namespace lamina
