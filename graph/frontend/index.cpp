// x[...] in Python's sense: ranges, elements, new axes, "...", and rows chosen by an integer tensor.
#include <limits>

#include "graph/frontend/eager.h"
#include "graph/frontend/op_functions.h"
#include "graph/ops/ops.h"

namespace lamina {
namespace {

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

struct Bounds {
  int64_t begin = 0, end = kEnd, step = 1;
  bool whole() const { return begin == 0 && end == kEnd && step == 1; }
};

Error bad_index(ErrorKind kind, const Operand& x, std::string what, std::string why, std::string fix) {
  return Error(kind, {.what = std::move(what), .where = text(x.at().line()), .why = std::move(why), .fix = std::move(fix)});
}

// Python's start:stop:step of one axis as the slice op's places.
Bounds range_of(const Operand& x, const IndexPart& part, Dim length) {
  Bounds b;
  b.step = part.step.value_or(1);
  if (b.step == 0) throw bad_index(ErrorKind::invalid_argument, x, "index: a step of 0 goes nowhere", "each step is the distance from one element to the next", "pass a step other than 0");
  if (b.step > 0) {
    b.begin = part.start.value_or(0);
    b.end = part.stop.value_or(kEnd);
    return b;
  }
  auto place = [&](int64_t i) {  // counted from the front; -1 is before the first
    if (i >= 0) return i;
    if (!length.known()) throw bad_index(ErrorKind::invalid_argument, x, "index: a negative place on an axis of unknown length", "a step backwards needs its places counted from the front", "leave the place out, or count from the front");
    return std::max<int64_t>(i + length.number(), -1);
  };
  b.begin = part.start ? place(*part.start) : kEnd;
  b.end = part.stop ? place(*part.stop) : -1;
  return b;
}

Bounds element_of(const Operand& x, int64_t i, Dim length, size_t axis) {
  if (length.known() && (i < -length.number() || i >= length.number()))
    throw bad_index(ErrorKind::index, x, cat("index ", i, " is out of range for axis ", axis, " of ", x.tensor().type()), cat("the axis has ", length, " elements"), length == Dim(0) ? "" : cat("pass a number from ", -length.number(), " to ", length.number() - 1));
  return {i, i == -1 ? kEnd : i + 1, 1};
}

}  // namespace

Tensor slice(const Operand& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& end, const std::vector<int64_t>& step) {
  if (begin.size() != end.size() || (!step.empty() && step.size() != begin.size()))
    throw bad_index(ErrorKind::invalid_argument, x, cat("slice: ", begin.size(), " begins, ", end.size(), " ends and ", step.size(), " steps"), "each sliced axis has one of each", "pass lists of one length");
  std::vector<IndexPart> parts;
  for (size_t i = 0; i < begin.size(); ++i) parts.push_back(IndexPart::range(begin[i], end[i], step.empty() ? 1 : step[i]));
  return index(x, parts);
}

Tensor index(const Operand& operand, const std::vector<IndexPart>& parts) {
  const Operand x(operand.resolve(), operand.at());
  const TensorType type = x.tensor().type();
  size_t taken = 0, rests = 0;
  for (const IndexPart& p : parts) {
    taken += p.kind != IndexPart::Kind::new_axis && p.kind != IndexPart::Kind::rest;
    rests += p.kind == IndexPart::Kind::rest;
  }
  if (taken > type.rank() || rests > 1)
    throw bad_index(ErrorKind::index, x, rests > 1 ? "index: '...' stands twice" : cat("index: ", taken, " places for ", type), rests > 1 ? "it stands for all axes that are not named" : cat("the tensor has ", type.rank(), type.rank() == 1 ? " axis" : " axes"),
                    "name each axis once");

  std::vector<Bounds> bounds;
  std::vector<int> kept;  // the result's axes: an axis of x, or -1 for a new one
  struct Gather {
    size_t axis;
    Tensor indices;
  };
  std::vector<Gather> gathers;
  bool any_slice = false;
  auto take_whole = [&](size_t count) {
    for (; count; --count) kept.push_back(int(bounds.size())), bounds.push_back({});
  };
  for (const IndexPart& p : parts) {
    const size_t axis = bounds.size();
    switch (p.kind) {
      case IndexPart::Kind::new_axis: kept.push_back(-1); break;
      case IndexPart::Kind::rest: take_whole(type.rank() - taken); break;
      case IndexPart::Kind::element: bounds.push_back(element_of(x, p.element, type.shape[axis], axis)); break;
      case IndexPart::Kind::range:
        bounds.push_back(range_of(x, p, type.shape[axis]));
        kept.push_back(int(axis));
        break;
      case IndexPart::Kind::tensor:
        gathers.push_back({kept.size(), p.indices});
        take_whole(1);
        break;
    }
  }
  take_whole(type.rank() - bounds.size());
  if (gathers.size() > 1) throw bad_index(ErrorKind::invalid_argument, x, "index: two tensors of indices", "one axis can be indexed by a tensor", "index one axis after the other with lm.gather");

  Tensor y = x.tensor();
  ops::SliceAttrs attrs;
  for (const Bounds& b : bounds) {
    any_slice |= !b.whole();
    attrs.begin.push_back(b.begin);
    attrs.end.push_back(b.end);
    attrs.step.push_back(b.step);
  }
  if (any_slice) y = apply_one(ops::def::slice, ir::make_attrs(std::move(attrs)), std::span(&y, 1), x.at());
  Shape shape;
  for (int axis : kept) shape.push_back(axis < 0 ? Dim(1) : y.shape()[size_t(axis)]);
  y = reshape_to(Operand(y, x.at()), shape);
  for (const Gather& g : gathers) y = gather(Operand(y, x.at()), Operand(g.indices, x.at()), int(g.axis));
  return y;
}

}  // namespace lamina
