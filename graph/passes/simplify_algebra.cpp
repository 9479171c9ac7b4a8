// Identities that keep every bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/passes/passes.h"
#include "graph/passes/rules.h"

namespace lamina::passes {
namespace {

using namespace ops::def;

bool is_number(const Site& s, size_t i, double value) {
  const ir::Literal* c = s.number(i);
  return c && c->first() == value && std::signbit(c->first()) == std::signbit(value);
}

// Simplifies a node that a rule has just added.
Value again(Graph& to, Value added);

// x*1, x/1, x-0, x+(-0), x^1, x*(-1), and 0 of integers; returns the remaining operand.
Value drop_neutral_operand(const Site& s) {
  const bool integer = is_integer(s.type.dtype);
  const double neutral_of_add = integer ? 0.0 : -0.0;
  auto if_same_type = [&](size_t i) { return s.has_type(i) ? s.in(i) : Value{}; };
  if (is(s.node, mul)) {
    for (size_t i : {0, 1}) {
      if (is_number(s, i, 1) && s.has_type(1 - i)) return s.in(1 - i);
      if (is_number(s, i, -1) && s.has_type(1 - i) && is_floating(s.type.dtype)) return again(s.to, ops::neg(s.to, s.in(1 - i)));
    }
  } else if (is(s.node, add)) {
    for (size_t i : {0, 1})
      if (is_number(s, i, neutral_of_add) && s.has_type(1 - i)) return s.in(1 - i);
  } else if (is(s.node, sub)) {
    if (is_number(s, 1, 0)) return if_same_type(0);
  } else if (is(s.node, div) || is(s.node, pow)) {
    if (is_number(s, 1, 1)) return if_same_type(0);
  }
  return {};
}

Value undo_inverse(const Site& s) {
  if (s.node.inputs.empty()) return {};
  const Node& before = s.maker(0);
  if ((is(s.node, neg) && is(before, neg)) || (is(s.node, logical_not) && is(before, logical_not))) return before.inputs[0];
  if ((is(s.node, relu) && is(before, relu)) || (is(s.node, abs) && is(before, abs))) return s.in(0);
  if ((is(s.node, astype) && s.has_type(0)) || is(s.node, stop_gradient)) return s.in(0);  // differentiation is over
  if (is(s.node, where) && s.in(1) == s.in(2) && s.has_type(1)) return s.in(1);
  if (is(s.node, concat) && s.inputs.size() == 1) return s.in(0);
  if ((is(s.node, as_real) && is(before, as_complex)) || (is(s.node, as_complex) && is(before, as_real))) return before.inputs[0];
  return {};
}

std::vector<int64_t> from_front(std::vector<int64_t> axes) {
  for (int64_t& axis : axes)
    if (axis < 0) axis += int64_t(axes.size());
  return axes;
}

bool is_identity(const std::vector<int64_t>& axes) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != int64_t(i)) return false;
  return true;
}

// Reshapes, transposes and broadcasts: merges two in a row, drops those that change nothing.
Value shorten_shape_ops(const Site& s) {
  if (is(s.node, transpose)) {
    std::vector<int64_t> axes = from_front(ir::attrs_of<ops::TransposeAttrs>(*s.node.attrs).axes);
    Value x = s.in(0);
    const bool twice = is(s.maker(0), transpose);
    if (twice) {
      const auto inner = from_front(ir::attrs_of<ops::TransposeAttrs>(*s.maker(0).attrs).axes);
      for (int64_t& axis : axes) axis = inner[size_t(axis)];
      x = s.maker(0).inputs[0];
    }
    if (is_identity(axes)) return x;
    return twice ? ops::transpose(s.to, x, axes) : Value{};
  }
  if (is(s.node, reshape)) {
    Value x = is(s.maker(0), reshape) ? s.maker(0).inputs[0] : s.in(0);
    if (s.to.type(x).shape == s.type.shape) return x;
    return x == s.in(0) ? Value{} : ops::reshape(s.to, x, s.type.shape);
  }
  if (is(s.node, broadcast_to)) {
    Value x = is(s.maker(0), broadcast_to) ? s.maker(0).inputs[0] : s.in(0);
    if (s.to.type(x).shape == s.type.shape) return x;
    return x == s.in(0) ? Value{} : ops::broadcast_to(s.to, x, s.type.shape);
  }
  if (is(s.node, slice) && s.has_type(0)) {
    const auto& attrs = ir::attrs_of<ops::SliceAttrs>(*s.node.attrs);
    bool whole = attrs.end.size() == attrs.step.size() && attrs.offset.empty();
    for (size_t i = 0; i < attrs.step.size(); ++i) {
      if (attrs.step[i] != 1) return {};
      whole = whole && attrs.begin[i] == 0 && attrs.end[i] == std::numeric_limits<int64_t>::max();
    }
    if (whole || known(s.type.shape)) return s.in(0);
  }
  return {};
}

// A slice of a concat that lies within one part is a slice of that part: the real parts of complex numbers just made of parts.
Value slice_part_of_concat(const Site& s) {
  if (!is(s.node, slice) || !is(s.maker(0), concat)) return {};
  ops::SliceAttrs attrs = ir::attrs_of<ops::SliceAttrs>(*s.node.attrs);
  if (!attrs.offset.empty() || !attrs.size.empty()) return {};
  const Shape& shape = s.to.type(s.in(0)).shape;
  int64_t axis = ir::attrs_of<ops::AxisAttrs>(*s.maker(0).attrs).axis;
  if (axis < 0) axis += int64_t(shape.size());
  const size_t a = size_t(axis);
  if (!shape[a].known() || attrs.step[a] < 1) return {};
  int64_t &begin = attrs.begin[a], &end = attrs.end[a];
  end = std::min(end, shape[a].number());
  if (begin < 0 || end <= begin) return {};
  for (const Value part : std::vector<Value>(s.maker(0).inputs)) {
    const int64_t length = s.to.type(part).shape[a].number();
    if (begin < length) {
      if (end > length) return {};
      if (begin == 0 && end == length) end = std::numeric_limits<int64_t>::max();
      return again(s.to, ops::slice(s.to, part, attrs.begin, attrs.end, attrs.step));
    }
    begin -= length, end -= length;
  }
  return {};
}

// max and min over axes of length 1 only reshape.
Value drop_empty_reduction(const Site& s) {
  const bool moves = (is(s.node, max) || is(s.node, min)) && reduces_nothing(s);
  return moves ? again(s.to, ops::reshape(s.to, s.in(0), s.type.shape)) : Value{};
}

// An elementwise op broadcasts by itself, so operands are taken from before broadcast_to. If no operand has the full shape any more, the op
// runs on the smaller shape and its result is broadcast.
Value drop_broadcasts(const Site& s) {
  if (!is_elementwise(s.node)) return {};
  bool changed = false;
  std::vector<Value> operands = s.inputs;
  for (Value& v : operands)
    while (is(s.to[v], broadcast_to)) v = s.to[v].inputs[0], changed = true;
  if (!changed) return {};
  Shape shape;
  for (Value v : operands) shape = broadcast(shape, s.to.type(v).shape);
  Value small = again(s.to, s.to.add(*s.node.op, s.node.attrs, std::move(operands)));
  return again(s.to, ops::broadcast_to(s.to, small, s.type.shape));
}

const std::initializer_list<Rule> kRules = {drop_neutral_operand, undo_inverse,         shorten_shape_ops,
                                            slice_part_of_concat, drop_empty_reduction, drop_broadcasts};

Value again(Graph& to, Value added) { return apply_rules(to, added, kRules); }

}  // namespace

Graph simplify_algebra(const Graph& g) { return simplified(g, kRules); }

}  // namespace lamina::passes
